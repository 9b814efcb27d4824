// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestKeysLiveAsLongAsTheirDebt: a key expires, but not before its state is idle. The cases
// include those in which other libraries forget too early.
func TestKeysLiveAsLongAsTheirDebt(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	client := server.Client(t)
	for _, c := range []struct {
		limit string
		cost  int64
	}{
		{"1/s burst 100", 100},  // elsewhere gone after 2 s whatever the burst
		{"1/10s burst 1", 1},    // elsewhere alive for half the time it takes
		{"6/min burst 2", 2},    // the same with a burst
		{"1000000/s", 1},        // elsewhere an expiry of zero: no key, no limit
		{"1/us burst 1", 1},     // over before the reply is read
		{"1/366day burst 2", 2}, // longer than 2^31 s are ms
		{"7/3ms burst 5", 5},    // whole ms are not enough
		{"1000/s initial 0", 1}, // denied, but remembered
		{"5/min leaky-bucket burst 5", 5},
		{"10/s burst 20 interval-refill", 20},
		{"3/s fixed-window", 3},
		{"3/min fixed-window anchor first", 1},
		{"3/year calendar Asia/Seoul", 1},
		{"3/s sliding-counter", 1},
		{"30/min sliding-counter sub-windows 60", 10},
		{"3/s sliding-log", 1},
		{"3/s sliding-log count-denied", 3},
		{"3/s fixed-window anchor first count-denied", 3},
		{"10/s burst 20 count-denied", 20},
		{"30/min sliding-counter sub-windows 6 whole", 10},
		{"300/min sliding-histogram", 100},
	} {
		t.Run(c.limit, func(t *testing.T) {
			redistest.Do(t, client, "FLUSHALL")
			l := testkit.Limiter(t, s, "scope", c.limit)
			d, err := l.Take(t.Context(), "k", c.cost)
			if err != nil {
				t.Fatal(err)
			}
			list := redistest.Keys(t, client)
			if idle := d.At.Time().Add(d.ResetAfter); len(list) == 0 && redistest.Now(t, client).Before(idle) || d.ResetAfter >= time.Second && len(list) > 1 {
				t.Fatalf("got keys %q before %v, want one", list, idle)
			}
			for _, key := range list {
				if strings.Contains(key, "!start.") {
					continue // the key of the rule's start
				}
				ends := redistest.Number(t, client, "PEXPIRETIME", key)
				if ends == -2 {
					continue // gone meanwhile, as it may
				}
				idle := d.At.Time().Add(d.ResetAfter)
				if got := time.UnixMilli(ends); got.Before(idle) {
					t.Errorf("the key ends at %v, its state at %v", got, idle)
				} else if most := idle.Add(l.Plan().Term(0).Window + 2*time.Second); got.After(most) {
					t.Errorf("the key ends at %v, long behind its state's %v", got, idle)
				}
			}
		})
	}
}

// TestKeysThatAreTakenFromLiveOn: repeated takes from a log do not send its expiry to the
// server each time, but the expiry is never too early.
func TestKeysThatAreTakenFromLiveOn(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	client := server.Client(t)
	l := testkit.Limiter(t, s, "scope", "10000/2s sliding-log")
	reported := make(map[int64]bool)
	takes := 0
	for start, last := sluice.Instant(0), sluice.Instant(0); ; takes++ {
		d, err := l.Take(t.Context(), "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.At > last+250_000 { // the first, or the machine was busy
			start, takes = d.At, 0
			clear(reported)
		} else if d.At > start+1_600_000 { // three half seconds later
			break
		}
		last = d.At
		var ends int64
		if list := redistest.Keys(t, client); len(list) > 0 {
			ends = redistest.Number(t, client, "PEXPIRETIME", list[0])
		}
		if ends <= 0 && time.Since(d.At.Time()) > 2*time.Second { // it has ended because the machine was busy
			last = 0
			continue
		}
		reported[ends] = true
		idle := d.At.Time().Add(d.ResetAfter)
		if got := time.UnixMilli(ends); got.Before(idle.Add(500*time.Millisecond)) || got.After(idle.Add(2*time.Second)) {
			t.Fatalf("the key ends at %v, its state at %v", got, idle)
		}
	}
	if n := len(reported); n < 3 || n > 50 { // a ring that grows is written again
		t.Errorf("%d takes given the key's end %d times, want about once in half a second", takes, n)
	}
}

// TestKeysOfWindowsEndWithTheirWindow: a take in the same window as the one before does not
// change the key's expiry, and one after that window sets it.
func TestKeysOfWindowsEndWithTheirWindow(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	client := server.Client(t)
	for _, limit := range []string{"100000/200ms fixed-window", "100000/200ms fixed-window anchor first", "100000/200ms sliding-counter"} {
		t.Run(limit, func(t *testing.T) {
			redistest.Do(t, client, "FLUSHALL")
			l := testkit.Limiter(t, s, "scope", limit)
			for ends := map[time.Time]int64{}; len(ends) < 3; {
				d, err := l.Take(t.Context(), "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				list, idle := redistest.Keys(t, client), d.At.Time().Add(d.ResetAfter)
				if len(list) == 0 {
					continue // gone meanwhile, as it may
				}
				end := redistest.Number(t, client, "PEXPIRETIME", list[0])
				switch was := ends[idle]; {
				case end == -2:
					continue
				case was != 0 && was != end:
					t.Fatalf("the key of a state that ends at %v ends at %d, and at %d before", idle, end, was)
				}
				if got := time.UnixMilli(end); got.Before(idle.Add(500*time.Millisecond)) || got.After(idle.Add(2*time.Second)) {
					t.Fatalf("the key ends at %v, its state at %v", got, idle)
				}
				ends[idle] = end
			}
		})
	}
}

// TestNothingIsKeptOfAFullKey: an idle state is deleted at once.
func TestNothingIsKeptOfAFullKey(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	states := func() []string { // a reset leaves a key that voids earlier receipts, for as long as one could count
		return slices.DeleteFunc(redistest.Keys(t, client), func(key string) bool { return strings.HasSuffix(key, "!!void") })
	}
	for _, text := range []string{
		"5/min", "5/min leaky-bucket burst 5", "5/min interval-refill", "5/366day fixed-window", "5/h fixed-window anchor first", "5/year calendar UTC",
		"5/366day sliding-counter", "6/366day sliding-counter sub-windows 6", "5/h sliding-log", "5/h sliding-histogram",
	} {
		t.Run(text, func(t *testing.T) {
			redistest.Do(t, client, "FLUSHALL")
			// A store that has met other limits of the name remembers which receipts count.
			s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
			l := testkit.Limiter(t, s, "scope", text)
			for _, end := range []struct {
				name string
				do   func(taken sluice.Decision) error
			}{
				{"refund", func(taken sluice.Decision) error {
					if l.Plan().Term(0).Rate.Den > 0 && l.Plan().Term(0).Refill == sluice.Continuous {
						return l.Reset(t.Context(), "k") // a bucket has refilled a part by itself
					}
					_, err := l.Refund(t.Context(), "k", taken.Spent, taken)
					return err
				}},
				{"reset", func(sluice.Decision) error { return l.Reset(t.Context(), "k") }},
			} {
				d, err := l.Take(t.Context(), "k", 3)
				if err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				if got := len(states()); got != 1 {
					t.Fatalf("got %d keys, want 1", got)
				}
				if err := end.do(d); err != nil {
					t.Fatal(err)
				}
				if got := states(); len(got) != 0 {
					t.Errorf("%s: got keys %q, want none", end.name, got)
				}
			}
			if _, err := l.Peek(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			if got := states(); len(got) != 0 {
				t.Errorf("peek: got keys %q, want none", got)
			}
		})
	}
}

// TestMemoryOfKeys checks the MEMORY USAGE of keys of 16 bytes.
func TestMemoryOfKeys(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	client := server.Client(t)
	for _, c := range []struct {
		limit string
		takes int
		most  int64 // bytes
	}{
		{"100/min", 1, 120},
		{"1000000/h burst 5000", 1, 120},
		{"100/min leaky-bucket", 1, 120},
		{"100/min fixed-window", 1, 120},
		{"100/min sliding-counter", 1, 152},
		{"100/min sliding-log", 100, 1100},
		{"1000000/h sliding-histogram", 5000, 5000},
	} {
		t.Run(c.limit, func(t *testing.T) {
			l := testkit.Limiter(t, s, "scope", c.limit)
			reqs := make([]sluice.Request, c.takes)
			for i := range reqs {
				reqs[i] = sluice.Request{Charge: l.Of("0123456789abcdef", 1)}
			}
			for measured := false; !measured; { // on a busy machine a key may have ended before
				redistest.Do(t, client, "FLUSHALL")
				out := make([]sluice.Result, len(reqs))
				if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
					t.Fatal(err)
				}
				for i, r := range out {
					if r.Err != nil || !r.Decision.Allowed && l.Plan().Term(0).DelayAfter == 0 {
						t.Fatalf("take %d: %+v", i, r)
					}
				}
				for _, key := range redistest.Keys(t, client) {
					text := redistest.Do(t, client, "MEMORY", "USAGE", key, "SAMPLES", "0")
					if text == "" {
						continue
					}
					got, err := strconv.ParseInt(text, 10, 64)
					t.Logf("%s: %s bytes", fmt.Sprintf("%.60s", key), text)
					if measured = true; err != nil || got > c.most {
						t.Errorf("got %s bytes, want at most %d", text, c.most)
					}
				}
			}
		})
	}
}
