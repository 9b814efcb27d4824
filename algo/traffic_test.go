// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// arrival is one request of a real log.
type arrival struct {
	key      string
	at, cost int64
}

// traffic reads a log of real requests, in order. The logs are not part of
// this repository; without them the test is skipped.
func traffic(t *testing.T, name string, parse func(line string) (arrival, bool)) []arrival {
	t.Helper()
	dir := cmp.Or(os.Getenv("SLUICE_DATA"), filepath.Join("..", "..", "shared", "data"))
	file, err := os.Open(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		t.Skipf("no %s; set SLUICE_DATA to the folder of traffic logs", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []arrival
	lines := bufio.NewScanner(unzipped)
	for lines.Scan() {
		if a, ok := parse(lines.Text()); ok {
			all = append(all, a)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

func parseZeek(line string) (arrival, bool) {
	f := strings.Split(line, "\t")
	if len(f) < 3 || strings.HasPrefix(line, "#") {
		return arrival{}, false
	}
	seconds, micros, _ := strings.Cut(f[0], ".")
	n, err := strconv.ParseInt(seconds+(micros + "000000")[:6], 10, 64)
	return arrival{f[2], n, 1}, err == nil
}

func parseHiggs(line string) (arrival, bool) {
	f := strings.Fields(line)
	if len(f) < 4 {
		return arrival{}, false
	}
	n, err := strconv.ParseInt(f[2], 10, 64)
	return arrival{f[1], n * s, 1}, err == nil
}

func parseTokens(line string) (arrival, bool) {
	f := strings.Split(line, ",")
	if len(f) < 3 {
		return arrival{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05.9999999", f[0])
	if err != nil {
		return arrival{}, false
	}
	in, err1 := strconv.ParseInt(f[1], 10, 64)
	out, err2 := strconv.ParseInt(f[2], 10, 64)
	return arrival{"all", at.UnixMicro(), in + out}, err1 == nil && err2 == nil
}

// TestBoundsOnRealTraffic limits real requests by every algorithm and checks the bounds of
// every key.
func TestBoundsOnRealTraffic(t *testing.T) {
	for _, c := range []struct {
		name, file string
		parse      func(string) (arrival, bool)
		least      int // requests in it
		limits     []sluice.Limit
	}{
		{"queries of a network, per client", "wrccdc-2018-dns.zeek.log.gz", parseZeek, 50_000, everyAlgorithm(20, s)},
		{"mentions, per account", "higgs-activity-2012-07-01_04T09.txt.gz", parseHiggs, 200_000, everyAlgorithm(30, m)},
		{"tokens of a language model", "azure-llm-2023-conv.csv.gz", parseTokens, 19_000, everyAlgorithm(200_000, m)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.least > 20_000 {
				testkit.Long(t)
			}
			requests := traffic(t, c.file, c.parse)
			if len(requests) < c.least {
				t.Fatalf("got %d requests of the log, want at least %d", len(requests), c.least)
			}
			for _, l := range c.limits {
				t.Run(l.String(), func(t *testing.T) {
					accounts := make(map[string]*account)
					books := make(map[string]*admissions)
					denied := 0
					for _, r := range requests {
						a := accounts[r.key]
						if a == nil {
							a = open(t, l)
							accounts[r.key], books[r.key] = a, &admissions{}
						}
						if d := a.take(r.at, r.cost); d.Allowed {
							books[r.key].add(r.at, r.cost)
						} else {
							denied++
						}
					}
					if denied == 0 {
						t.Error("no request was denied: the limit is too high to show anything")
					}
					for _, book := range books {
						checkBounds(t, l, *book)
					}
				})
			}
		})
	}
}

// everyAlgorithm returns a limit of each algorithm, a log only if its quota allows.
func everyAlgorithm(quota, window int64) []sluice.Limit {
	all := []sluice.Limit{
		tokens(quota, window, quota),
		with(tokens(quota, window, quota), byInterval),
		leaky(quota, window, quota/2, 1),
		fixed(quota, window),
		with(fixed(quota, window), onFirst),
		counter(quota, window, 1),
		counter(quota, window, 10),
		with(counter(quota, window, 10), conservative),
		histogram(quota, window, 3),
		histogram(quota, window, bounds.DefaultPrecision),
	}
	if quota <= bounds.MaxLogQuota {
		all = append(all, log(quota, window))
	}
	return all
}
