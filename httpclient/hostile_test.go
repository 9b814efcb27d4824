// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/internal/testkit"
)

// badAnswers are answers of a broken or hostile upstream.
var badAnswers = []struct {
	name   string
	status int
	fields []string
}{
	{"an epoch second in Retry-After", 429, []string{"Retry-After: 1790000000"}},
	{"milliseconds since 1970", 503, []string{"Retry-After: 1790000000000"}},
	{"overflow", 429, []string{"Retry-After: 99999999999999999999999"}},
	{"a date in the far future", 429, []string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}},
	{"a date by a clock of long ago", 429, []string{"Date: Mon, 01 Jan 0001 00:00:00 GMT", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}},
	{"a date in the past", 429, []string{"Retry-After: Thu, 01 Jan 1970 00:00:00 GMT"}},
	{"a negative wait", 429, []string{"Retry-After: -1000000000"}},
	{"no number", 429, []string{"Retry-After: NaN"}},
	{"infinity", 429, []string{"Retry-After: Infinity"}},
	{"an exponent", 429, []string{"Retry-After: 1e9"}},
	{"two of them", 429, []string{"Retry-After: 1", "Retry-After: 1000000000"}},
	{"two in one", 429, []string{"Retry-After: 1000000000, 1"}},
	{"nothing left for 30 years", 200, []string{`RateLimit: "a";r=0;t=999999999`}},
	{"nothing left, denied", 429, []string{`RateLimit: "a";r=0;t=999999999`}},
	{"the largest t", 200, []string{`RateLimit: "a";r=0;t=999999999999999`}},
	{"t beyond an Integer", 200, []string{`RateLimit: "a";r=0;t=9999999999999999`}},
	{"a negative t", 200, []string{`RateLimit: "a";r=0;t=-1`}},
	{"a decimal t", 200, []string{`RateLimit: "a";r=0;t=1e9`}},
	{"a negative r", 200, []string{`RateLimit: "a";r=-5;t=999999999`}},
	{"one left for 30 years", 200, []string{`RateLimit: "a";r=1;t=999999999`}},
	{"few left for 30 years", 200, []string{`RateLimit: "a";r=3;t=999999999`}},
	{"one a year", 200, []string{`RateLimit-Policy: "a";q=1;w=31536000`, `RateLimit: "a";r=0;t=1`}},
	{"one in the largest window", 200, []string{`RateLimit-Policy: "a";q=1;w=999999999999999`, `RateLimit: "a";r=0`}},
	{"a window of no length", 200, []string{`RateLimit-Policy: "a";q=0;w=0`, `RateLimit: "a";r=0;t=0`}},
	{"a burst without end", 200, []string{`RateLimit-Policy: "a";q=1;w=1;sluice-burst=999999999999999`, `RateLimit: "a";r=0;t=999999999`}},
	{"both", 429, []string{"Retry-After: 1000000000", `RateLimit: "a";r=0;t=999999999`}},
	{"one name, many times", 200, []string{"RateLimit: " + strings.Repeat(`"a";r=0;t=999999999, `, 15) + `"a";r=0;t=1`}},
	{"thousands of limits", 200, []string{"RateLimit: " + strings.Repeat(`"a";r=0;t=999999999, `, 5000) + `"b";r=0;t=1`}},
	{"thousands of lines", 200, strings.Split(strings.Repeat("RateLimit: \"a\";r=0;t=999999999\n", 5000)+"X: y", "\n")},
	{"thousands of parameters", 200, []string{`RateLimit: "a";r=0;t=999999999` + strings.Repeat(";x", 5000)}},
	{"an enormous name", 200, []string{`RateLimit: "` + strings.Repeat("a", 100_000) + `";r=0;t=999999999`}},
	{"a large name", 200, []string{`RateLimit: "` + strings.Repeat("a", 8000) + `";r=0;t=999999999`}},
	{"bytes that no field has", 200, []string{"RateLimit: \"\xff\";r=0;t=9", "Retry-After: \xff"}},
	{"decimals without end", 403, []string{"Retry-After: 1." + strings.Repeat("9", 100_000)}},
	{"a number without end", 502, []string{"Retry-After: " + strings.Repeat("9", 8000)}},
	{"an age without end", 429, []string{"Age: 99999999999999999999999", "Retry-After: 1000000000"}},
	{"an age that is no number", 503, []string{"Age: -1", "Retry-After: 1000000000"}},
	{"a second, from a cache, for 30 years", 429, []string{"Age: 1", "Retry-After: 1000000000", `RateLimit: "a";r=0;t=999999999`}},
	{"a policy alone, and X-RateLimit", 200, []string{`RateLimit-Policy: "a";q=1;w=999999999`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1790000000000"}},
	{"two points", 504, []string{"Retry-After: 1.2.3"}},
	{"a point alone", 509, []string{"Retry-After: ."}},
	{"hexadecimal", 529, []string{"Retry-After: 0x7fffffff"}},
	{"a choice a year later", 300, []string{"Retry-After: 31536000"}},
	{"thousands of Retry-After", 403, strings.Split(strings.Repeat("Retry-After: 1000000000\n", 5000)+"X: y", "\n")},
	{"draft 7, for 30 years", 200, []string{"RateLimit: limit=1, remaining=0, reset=999999999"}},
	{"draft 7, the largest", 200, []string{"RateLimit: remaining=9223372036854775808, reset=9223372036854775808"}},
	{"draft 7, thousands", 200, []string{"RateLimit: " + strings.Repeat("remaining=0, reset=999999999, ", 5000) + "x=1"}},
	{"draft 6, for 30 years", 200, []string{"RateLimit-Limit: 1, 1;w=60", "RateLimit-Remaining: 0", "RateLimit-Reset: 999999999"}},
	{"draft 6, negative", 200, []string{"RateLimit-Remaining: -1", "RateLimit-Reset: -1"}},
	{"draft 6, no numbers", 200, []string{"RateLimit-Remaining: NaN", "RateLimit-Reset: Infinity"}},
	{"X-RateLimit, milliseconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1790000000000"}},
	{"X-RateLimit, an exponent", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1e300"}},
	{"X-RateLimit, a number without end", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + strings.Repeat("9", 120)}},
	{"X-RateLimit since the year 1", 200, []string{"Date: Mon, 01 Jan 0001 00:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1790000000"}},
	{"X-RateLimit", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1790000000"}},
	{"X-RateLimit, the largest", 200, []string{"X-RateLimit-Remaining: 9223372036854775807", "X-RateLimit-Reset: 9223372036854775807"}},
	{"X-RateLimit, negative", 200, []string{"X-RateLimit-Remaining: -9223372036854775808", "X-RateLimit-Reset: -9223372036854775808"}},
	{"X-RateLimit, twice", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 5", "X-RateLimit-Reset: 1790000000"}},
}

// TestTransportMaxRetryAfter: whatever one answer says, a request is sent MaxRetryAfter later,
// and all are when the server answers correctly again.
func TestTransportMaxRetryAfter(t *testing.T) {
	for _, c := range badAnswers {
		for _, times := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d times", c.name, times), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mended atomic.Bool
					h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if !mended.Load() {
							answer(c.status, c.fields...)(w, r)
						}
					})
					client := limited(t, h, httpclient.TransportOptions{MaxRetryAfter: 5 * time.Minute, MaxRetries: -1})
					for range times {
						if status, err := get(t.Context(), client, "http://api.test/"); status != c.status || err != nil {
							t.Fatalf("got %d, %v; want %d", status, err, c.status)
						}
						// Until MaxRetryAfter is over, a request that would have to
						// wait fails at once.
						_, err := get(t.Context(), client, "http://api.test/")
						var hold *httpclient.WaitError
						if err != nil && (!errors.As(err, &hold) || hold.Wait <= 0 || hold.Wait > 5*time.Minute) {
							t.Fatalf("got %v; want a WaitError of at most 5m", err)
						}
						time.Sleep(5 * time.Minute)
					}
					mended.Store(true)
					for range 3 {
						if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
							t.Errorf("after all: got %d, %v; want 200", status, err)
						}
					}
				})
			})
		}
	}
}

// TestTransportProbes: once an answer is too old one request is sent, and the others wait for
// its answer.
func TestTransportProbes(t *testing.T) {
	lie := answer(429, "Retry-After: 1790000000")
	empty := answer(200, `RateLimit: "a";r=0;t=999999999`)
	for _, c := range []struct {
		name       string
		lie, probe http.HandlerFunc
		want       map[string]int // answers to ten requests at once, and the longest hold
		last       time.Duration  // when the last of them came to the server
	}{
		{"mended", lie, answer(200), map[string]int{"200": 10}, 5 * time.Second},
		{"mended, with a limit", lie, answer(200, `RateLimit: "a";r=1000;t=1`), map[string]int{"200": 10}, 5*time.Second + 8*time.Millisecond},
		{"mended, for less time", lie, answer(429, "Retry-After: 90"), map[string]int{"429": 1, "held 1m30s": 9}, 0},
		{"as before", lie, lie, map[string]int{"429": 1, "held 10m0s": 9}, 0},
		{"nothing left", lie, empty, map[string]int{"200": 1, "held 10m0s": 9}, 0},
		{"denied, without a word", lie, answer(429), map[string]int{"429": 1, "held 10m0s": 9}, 0},
		{"of a limit", empty, answer(200), map[string]int{"200": 10}, 5 * time.Second},
		{"of a limit, as before", empty, empty, map[string]int{"200": 1, "held 10m0s": 9}, 0},
		{"of a limit, another", empty, answer(200, `RateLimit: "b";r=0;t=90`), map[string]int{"200": 1, "held 1m30s": 9}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []http.HandlerFunc{c.lie, c.probe}, start: time.Now()}
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.ServeHTTP(w, r)
					time.Sleep(5 * time.Second) // of the bubble; so late is the answer sent
				})
				client := limited(t, h, httpclient.TransportOptions{MaxRetries: -1})
				if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				asked := time.Since(s.start)
				var mu sync.Mutex
				got := make(map[string]int)
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						status, err := get(t.Context(), client, "http://api.test/")
						what := strconv.Itoa(status)
						if hold, held := errors.AsType[*httpclient.WaitError](err); held {
							what = fmt.Sprint("held ", hold.Wait)
						}
						mu.Lock()
						defer mu.Unlock()
						got[what]++
					})
				}
				synctest.Wait()
				s.mu.Lock()
				if len(s.at) != 2 || s.at[1] != asked {
					t.Errorf("requests came at %v; want a second one at %v", s.at, asked)
				}
				s.mu.Unlock()
				wg.Wait()
				if last := s.at[len(s.at)-1] - asked; last != c.last {
					t.Errorf("the last request came %v after the probe; want %v: %v", last, c.last, s.at)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %v; want %v", got, c.want)
				}
			})
		})
	}
}

// TestTransportProbeLost: a probe without an answer changes nothing, and one that hangs does not
// delay the others for longer than MaxRetryAfter.
func TestTransportProbeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s := &script{answers: []http.HandlerFunc{
			answer(200, `RateLimit: "a";r=0;t=999999999`),
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(http.ResponseWriter, *http.Request) { <-hang },
		}, start: time.Now()}
		client := limited(t, s, httpclient.TransportOptions{MaxRetryAfter: 2 * time.Minute})
		if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := get(ctx, client, "http://api.test/"); err == nil {
			t.Error("the answer was not lost")
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(hang)
		wg.Go(func() {
			if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		var hold *httpclient.WaitError
		if _, err := get(t.Context(), client, "http://api.test/"); !errors.As(err, &hold) {
			t.Errorf("while one asks: got %v; want a WaitError", err)
		}
		time.Sleep(time.Minute)
		if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
			t.Errorf("after MaxRetryAfter: got %d, %v; want 200", status, err)
		}
	})
}

// TestTransportForget: the statements of a host are forgotten, for waiting requests, too.
func TestTransportForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Since(start) == 0 {
				answer(200, `RateLimit: "a";r=0;t=50`)(w, r)
			}
		})
		rt, err := httpclient.NewTransport(httpclient.TransportOptions{
			Base:      base(t, h),
			Partition: func(r *http.Request) string { return r.URL.Path },
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: rt}
		urls := []string{"http://api.test:8080/1", "http://api.test:8080/2", "http://other.test/"}
		var wg sync.WaitGroup
		for _, url := range urls {
			if _, err := get(t.Context(), client, url); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				wg.Go(func() {
					if _, err := get(t.Context(), client, url); err != nil {
						t.Error(err)
					}
					want := 10 * time.Second
					if strings.Contains(url, "other") {
						want = 50 * time.Second
					}
					if took := time.Since(start); took != want {
						t.Errorf("%s: after %v; want %v", url, took, want)
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		rt.Forget("unknown.test")
		rt.Forget("api.test:8080")
		wg.Wait()
	})
}

// TestTransportAmongBadAnswers: with constantly changing answers no request waits longer than
// MaxWait, and none keeps requests from the server for long.
func TestTransportAmongBadAnswers(t *testing.T) {
	for seed := range uint64(testkit.Steps(10, 20)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1)) // repeatable
			start, last := time.Now(), time.Now()
			var mu sync.Mutex
			h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				mu.Lock()
				last = time.Now()
				lie := badAnswers[r.IntN(len(badAnswers))]
				fields := lie.fields
				if r.IntN(4) == 0 {
					fields = []string{fmt.Sprintf(`RateLimit-Policy: "n%d";q=%d;w=%d`, r.IntN(1000), r.IntN(10), r.IntN(100)), fmt.Sprintf(`RateLimit: "n%d";r=%d;t=%d`, r.IntN(1000), r.IntN(10), r.IntN(1000))}
				}
				if r.IntN(8) == 0 {
					fields = append([]string{"Age: 1"}, fields...)
				}
				pause := time.Duration(r.IntN(3)) * time.Second
				mu.Unlock()
				time.Sleep(pause)
				answer(lie.status, fields...)(w, req)
			})
			client := limited(t, h, httpclient.TransportOptions{MaxWait: 20 * time.Second, MaxRetryAfter: time.Minute})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for time.Since(start) < time.Hour {
						began := time.Now()
						_, err := get(t.Context(), client, "http://api.test/")
						var hold *httpclient.WaitError
						if err != nil && !errors.As(err, &hold) {
							t.Errorf("got %v", err)
						}
						if took := time.Since(began); took > 20*time.Second+4*2*time.Second {
							t.Errorf("a request took %v; want at most MaxWait and its answers", took)
						}
						mu.Lock()
						if quiet := time.Since(last); quiet > 2*time.Minute {
							t.Errorf("the server was not asked for %v", quiet)
						}
						mu.Unlock()
						time.Sleep(time.Second)
					}
				})
			}
			wg.Wait()
		})
	}
}
