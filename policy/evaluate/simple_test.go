// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestSimpleEqualsGeneral: a request that matches a simple rule alone is decided as it is
// beside a second rule that charges nothing but requires the general code.
func TestSimpleEqualsGeneral(t *testing.T) {
	idle := one("idle", by(policy.Header("X-Nobody")), "1/min")
	idle.Levels[0].Missing = policy.Skip
	var runs, denied, failed, missing int
	rapid.Check(t, func(t *rapid.T) {
		runs++
		rule := drawSimple(t)
		now, down := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), error(nil)
		var evaluators [2]*evaluate.Evaluator
		var reports [2][]string
		for i, rules := range [2][]policy.Rule{{rule}, {rule, idle}} {
			store := memstore.New(memstore.Options{MaxKeys: 4096, Now: func() time.Time { return now }})
			evaluator, err := evaluate.New(evaluate.Options{
				Rules: rules, Now: func() time.Time { return now },
				Store:   oddStore{&testkit.Store{Store: store, Before: func(context.Context, sluice.Request) error { return down }}},
				OnError: func(_ context.Context, _ policy.Attributes, err error) { reports[i] = append(reports[i], err.Error()) },
			})
			if err != nil {
				t.Fatal(err)
			}
			evaluators[i] = evaluator
		}
		var calls [2]evaluate.Call // used again, as a evaluator's are
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 7 * time.Second, time.Hour}).Draw(t, "later"))
			if down = nil; rapid.IntRange(0, 9).Draw(t, "down") == 0 {
				down = errors.New("down")
			}
			request := drawSimpleRequest(t)
			settles := rapid.Bool().Draw(t, "settles")
			var said [2]string
			for i := range evaluators {
				evaluators[i].Decide(t.Context(), request, &calls[i])
				said[i] = saidOf(&calls[i])
				if settles {
					calls[i].Settle(t.Context(), policy.Response{Status: 200})
				} else if v := calls[i].Evaluated; calls[i].Verdict.Passes() && v != nil {
					said[i] += fmt.Sprintf(" cancelled: %v", v.Cancel(t.Context()))
				}
			}
			if said[0] != said[1] {
				t.Fatalf("alone:\n%s\nbeside another rule:\n%s", said[0], said[1])
			}
			switch calls[0].Verdict {
			case evaluate.Denied:
				denied++
			case evaluate.FailedOpen, evaluate.FailedClosed:
				failed++
			case evaluate.Refused:
				missing++
			}
		}
		if a, b := strings.Join(reports[0], "\n"), strings.Join(reports[1], "\n"); a != b {
			t.Fatalf("reported alone:\n%s\nbeside another rule:\n%s", a, b)
		}
	})
	if least := runs / 5; denied < least || failed < least || missing < least {
		t.Errorf("too weak: %d denied, %d failed, %d refused", denied, failed, missing)
	}
}

// oddStore returns denials that no store should return.
type oddStore struct{ *testkit.Store }

func (s oddStore) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Take(ctx, req)
	if err == nil && !d.Allowed {
		d.Binding, d.Spent, d.Due, d.Delay = 2, 3, d.At+4, time.Second
	}
	return d, err
}

func drawSimple(t *rapid.T) policy.Rule {
	limit := rapid.SampledFrom([]string{
		"3/min", "2/s token-bucket burst 5", "4/min fixed-window", "3/min sliding-log", "4/min sliding-counter", "5/min sliding-histogram",
	}).Draw(t, "limit")
	tenant := policy.Func("tenant", func(a policy.Attributes) (string, error) {
		if len(a.Header("X-User")) > 1 {
			return "", errors.New("no tenants today")
		}
		return strings.Join(a.Header("X-User"), ""), nil
	})
	key := rapid.SampledFrom([][]policy.Part{
		nil, by(policy.IP()), by(policy.Header("X-User")), by(policy.Header("X-User"), policy.IP()), by(tenant),
	}).Draw(t, "key")
	r := one("api", key, limit)
	r.Levels[0].Missing = rapid.SampledFrom([]policy.Missing{policy.Refuse, policy.Skip, policy.Share}).Draw(t, "missing")
	r.Failure = rapid.SampledFrom([]sluice.Failure{sluice.FailOpen, sluice.FailClosed}).Draw(t, "failure")
	r.Cost.Units = rapid.Int64Range(1, 6).Draw(t, "cost")
	if len(key) == 1 && rapid.Bool().Draw(t, "exempt") {
		r.Levels[0].ExemptKeys = [][]string{{"192.0.2.1"}}
	}
	return r
}

func drawSimpleRequest(t *rapid.T) policy.Attributes {
	a := &policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{}}
	a.Headers["X-User"] = rapid.SampledFrom([][]string{nil, {"ada"}, {"bob"}, {"ada", "bob"}, {"192.0.2.1"}}).Draw(t, "user")
	if text := rapid.SampledFrom([]string{"", "192.0.2.1", "192.0.2.2", "::ffff:192.0.2.2", "2001:db8::1", "2001:db8::2%eth0"}).Draw(t, "client"); text != "" {
		a.Client = netip.MustParseAddr(text)
	}
	return a.Attributes()
}

// saidOf returns all results of a call and its verdict.
func saidOf(c *evaluate.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %+v, charge %+v, violated %v, error %v, passes %v, settles %v\n", c.Verdict, c.Decision, c.Charge, c.Violated, c.Err, c.Verdict.Passes(), c.Settles())
	if c.Limit != nil {
		fmt.Fprintf(&b, "limit %s of %s\n", c.Limit.Name, c.Rule.Name)
	}
	for t := range c.Limits() {
		fmt.Fprintf(&b, "under %s\n", t.Name)
	}
	v := c.Evaluated
	if v == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "evaluated: %v %+v, refused %v, error %v, failure %v, %d limits\n", v.Allowed, v.Decision, v.Refused, v.Err, v.Failure, v.Limits)
	for o := range v.Outcomes() {
		fmt.Fprintf(&b, "%s %s %q %d %s %v %v %v %v %+v\n", o.Rule.Name, o.Level.Name, o.Key, o.Cost, o.Limit.Name, o.Soft, o.Grace, o.Degraded, o.Err, o.Outcome)
	}
	o, bound := v.Binding(nil)
	fmt.Fprintf(&b, "binds: %v %q %+v", bound, o.Key, o.Outcome)
	for w := range v.Warnings() {
		fmt.Fprintf(&b, " warned by %s", w.Rule.Name)
	}
	for s := range v.Trials() {
		fmt.Fprintf(&b, " tried %s", s.Rule.Name)
	}
	return b.String()
}
