// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func TestParseJitter(t *testing.T) {
	for text, want := range map[string]policy.Jitter{"30s": {Most: 30 * time.Second}, "20%": {Percent: 20}, "100%": {Percent: 100}, "24h0m0s": {Most: 24 * time.Hour}, "1ms": {Most: time.Millisecond}} {
		if j, err := policy.ParseJitter(text); err != nil || j != want {
			t.Errorf("%s: got %v, %v", text, j, err)
		}
	}
	for _, text := range []string{"", "0s", "0%", "-1s", "-1%", "101%", "25h", "1.5%", "%", "30", "30s%"} {
		if j, err := policy.ParseJitter(text); err == nil || j != (policy.Jitter{}) || !strings.Contains(err.Error(), "use one up to 24h0m0s, such as 30s") {
			t.Errorf("%q: got %v, %v", text, j, err)
		}
	}
}

// TestRetryJitter: clients denied at one instant under one key get different times, none too
// early and none too late. All times of an answer move by the same amount, and Evaluated
// does not change.
func TestRetryJitter(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 20, 0, time.UTC)
	for _, c := range []struct {
		jitter policy.Jitter
		most   time.Duration
	}{
		{policy.Jitter{}, 0},
		{policy.Jitter{Most: 30 * time.Second}, 30 * time.Second},
		{policy.Jitter{Percent: 50}, 20 * time.Second},
	} {
		f, err := evaluate.New(evaluate.Options{
			Store: memstore.New(memstore.Options{Now: func() time.Time { return now }}),
			Rules: []policy.Rule{{
				Name: "all", RetryJitter: c.jitter,
				Levels: []policy.Level{{Limits: []policy.Limit{{Limit: sluice.PerMinute(1).WithAlgorithm(sluice.FixedWindow{})}}}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		const truth = 40 * time.Second
		reported, least, longest := map[time.Duration]bool{}, time.Hour, time.Duration(0)
		for i := range 400 {
			var call evaluate.Call
			f.Decide(t.Context(), (&policy.Request{Method: "GET", Path: "/"}).Attributes(), &call)
			if i == 0 {
				if call.Verdict != evaluate.Allowed || call.Decision != call.Evaluated.Decision {
					t.Fatalf("%v: the first is %v with %+v", c.jitter, call.Verdict, call.Decision)
				}
				continue
			}
			wait, ok := call.Retry()
			if !ok || call.Verdict != evaluate.Denied || wait < truth || wait > truth+c.most {
				t.Fatalf("%v: %v, reported %v (%v), want %v to %v", c.jitter, call.Verdict, wait, ok, truth, truth+c.most)
			}
			if call.Decision.ResetAfter-wait != call.Evaluated.Decision.ResetAfter-truth || call.Evaluated.Decision.RetryAfter != truth {
				t.Fatalf("%v: reported %+v, evaluated %+v", c.jitter, call.Decision, call.Evaluated.Decision)
			}
			reported[wait.Truncate(time.Second)] = true
			least, longest = min(least, wait), max(longest, wait)
		}
		seconds := int(c.most / time.Second) // all but a few of them, with certainty
		if len(reported) < max(seconds-4, 1) || c.most > 0 && (least > truth+c.most/10 || longest < truth+c.most/10*9) {
			t.Errorf("%v: %d different seconds from %v to %v", c.jitter, len(reported), least, longest)
		}
	}
}

// A request that can never fit gets no time to retry, with jitter or without.
func TestRetryJitterNever(t *testing.T) {
	f, err := evaluate.New(evaluate.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []policy.Rule{{
			Name: "all", Cost: policy.Cost{Units: 5}, RetryJitter: policy.Jitter{Percent: 100},
			Levels: []policy.Level{{Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var call evaluate.Call
	f.Decide(t.Context(), (&policy.Request{Method: "GET", Path: "/"}).Attributes(), &call)
	if wait, ok := call.Retry(); ok || !call.Decision.TooLarge {
		t.Errorf("reported %v, %+v", wait, call.Decision)
	}
}

func TestRetryJitterFaults(t *testing.T) {
	for _, c := range []struct {
		jitter policy.Jitter
		want   string
	}{
		{policy.Jitter{Most: -1}, "RetryJitter: -1ns must be 0 to 24h0m0s"},
		{policy.Jitter{Most: 25 * time.Hour}, "25h0m0s must be 0 to 24h0m0s"},
		{policy.Jitter{Percent: 101}, "101% must be 0 to 100%"},
		{policy.Jitter{Most: 1, Percent: 1}, "a time, and a share of the wait; use one of them"},
	} {
		r := policy.NewRule("r", policy.IP(), sluice.PerMinute(1))
		r.RetryJitter = c.jitter
		if _, err := policy.Compile([]policy.Rule{r}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c.jitter, err)
		}
	}
}
