// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/finding"
)

// arrival is a request of real traffic: when it came, after the first one, and
// whose it is.
type arrival struct {
	at  time.Duration
	key string
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	zipped, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(path, "testdata") {
		t.Skipf("no %s; set SLUICE_DATA to the folder of traffic logs", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream reads a log in the form that ../finding/testdata/README.md describes.
func stream(name string) func(*testing.T) []arrival {
	return func(t *testing.T) (all []arrival) {
		t.Helper()
		b := bytes.NewReader(unzip(t, filepath.Join("..", "finding", "testdata", name)))
		for at := time.Duration(0); b.Len() > 0; {
			after, err := binary.ReadUvarint(b)
			if err != nil {
				t.Fatal(err)
			}
			key, err := binary.ReadUvarint(b)
			if err != nil {
				t.Fatal(err)
			}
			at += time.Duration(after) * time.Millisecond
			all = append(all, arrival{at, strconv.FormatUint(key, 10)})
		}
		return all
	}
}

// higgs reads a log of actions on messages, in seconds. The log has no licence that permits
// copies, so it is not part of this repository.
func higgs(column int) func(*testing.T) []arrival {
	return func(t *testing.T) (all []arrival) {
		t.Helper()
		dir := cmp.Or(os.Getenv("SLUICE_DATA"), filepath.Join("..", "..", "..", "..", "shared", "data"))
		first := 0
		for lines := bufio.NewScanner(bytes.NewReader(unzip(t, filepath.Join(dir, "higgs-activity-2012-07-01_04T09.txt.gz")))); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			second, err := strconv.Atoi(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			if first == 0 {
				first = second
			}
			all = append(all, arrival{time.Duration(second-first) * time.Second, fields[column]})
		}
		return all
	}
}

// peaks returns the most requests of each key within any window, least first.
func peaks(all []arrival, window time.Duration) (most []int) {
	of := make(map[string][]time.Duration)
	for _, a := range all {
		of[a.key] = append(of[a.key], a.at)
	}
	for _, times := range of {
		from, peak := 0, 0
		for to := range times {
			for times[to]-times[from] >= window {
				from++
			}
			peak = max(peak, to-from+1)
		}
		most = append(most, peak)
	}
	slices.Sort(most)
	return most
}

// play evaluates the requests under a limit, with the clock of the program, which
// skips seconds in make check, and returns all findings at every step.
func play(t *testing.T, all []arrival, limit string, step time.Duration) (found []finding.Finding) {
	t.Helper()
	w := newWatched(t, "  - {name: site, by: header.X-User, limits: "+limit+"}\n")
	began, tick, look := w.now, w.now, w.now
	second := time.Duration(testkit.Steps(10, 1)) * time.Second
	for _, a := range all {
		for at := began.Add(a.at); !tick.After(at); tick = tick.Add(second) {
			w.now = tick
			w.tally.Tick(tick)
			if !tick.Before(look) {
				look = look.Add(step)
				found = append(found, w.look(t, "").Rules[0].Findings...)
			}
		}
		w.now = began.Add(a.at)
		w.ask(t, a.key, 1)
	}
	o := w.look(t, "")
	if n := o.Requests.Total.Allowed + o.Requests.Total.Denied; n != uint64(len(all)) {
		t.Errorf("%s: %d of %d requests were counted", limit, n, len(all))
	}
	return append(found, o.Rules[0].Findings...)
}

// TestFindingsOfRealTraffic: a limit of twice the most requests that all but one in a
// thousand keys ever sent in a second, a minute or an hour gives no finding. A limit that
// only so many percent of the keys stay below gives one, so the silence means something.
// Three clients of the DNS server cause most denials of narrower limits, and one name is
// 41 % of its requests.
func TestFindingsOfRealTraffic(t *testing.T) {
	for i, c := range []struct {
		name     string
		read     func(*testing.T) []arrival
		requests int
		step     time.Duration // from one look at the findings to the next
		windows  []string
		percent  int
		kind     string
	}{
		{"clients of a site", stream("apache.gz"), 10_000, 30 * time.Minute, []string{"min", "s", "h"}, 50, finding.TooTight},
		{"clients of a DNS server", stream("dns-client.gz"), 53_615, 10 * time.Second, []string{"min", "s"}, 30, finding.TooTight},
		{"names at a DNS server", stream("dns-name.gz"), 53_615, 10 * time.Second, []string{"min", "s"}, 50, finding.OneClient},
		{"actors in a flash crowd", higgs(0), 204_048, 30 * time.Minute, []string{"min", "s", "h"}, 50, finding.TooTight},
		{"targets of a flash crowd", higgs(1), 204_048, 30 * time.Minute, []string{"min", "s", "h"}, 50, finding.TooTight},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i > 0 {
				testkit.Long(t)
			}
			all := c.read(t)
			if len(all) != c.requests {
				t.Fatalf("%d requests, want %d", len(all), c.requests)
			}
			said := 0
			step := c.step * time.Duration(min(4, testkit.Steps(4, 1)))
			for _, window := range c.windows[:testkit.Steps(1, len(c.windows))] {
				most := peaks(all, map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour}[window])
				wide := fmt.Sprintf("%d/%s", 2*most[(999*len(most)+999)/1000-1], window)
				for _, f := range play(t, all, wide, step) {
					if f.Kind == finding.TooTight || f.Kind == finding.OneClient {
						t.Errorf("%s: %s: %s", wide, f.Kind, f.Text)
					}
				}
				narrow := fmt.Sprintf("%d/%s", most[len(most)*c.percent/100], window)
				for _, f := range play(t, all, narrow, c.step) {
					if f.Kind == c.kind {
						said++
					}
				}
			}
			if said == 0 {
				t.Errorf("no narrow limit was said to be %s", c.kind)
			}
		})
	}
}
