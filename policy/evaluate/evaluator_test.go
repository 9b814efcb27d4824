// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func TestSeveralRulesAreChargedAllOrNone(t *testing.T) {
	w := newWorld(t,
		one("per-user", by(policy.Header("X-User")), "2/min fixed-window"),
		one("all", nil, "3/min fixed-window"),
	)
	w.allow(user("ada"))
	w.allow(user("ada"))
	w.deny(user("ada"), "per-user", "fixed-window.min", time.Minute)
	if got, want := w.remaining("all", ""), []int64{1}; !slices.Equal(got, want) {
		t.Errorf("the denied request left %v of the common budget, want %v", got, want)
	}
	w.allow(user("bob"))
	w.deny(user("bob"), "all", "fixed-window.min", time.Minute)
	if got, want := w.remaining("per-user", "", "bob"), []int64{1}; !slices.Equal(got, want) {
		t.Errorf("the denied request left %v of bob's budget, want %v", got, want)
	}
	if calls, batches := w.store.Calls(), w.store.Batches(); calls != 5 || batches != 0 {
		t.Errorf("%d calls and %d of them batches for 5 requests", calls, batches)
	}
}

func TestHierarchy(t *testing.T) {
	org, team, usr := policy.Claim("org"), policy.Claim("team"), policy.Claim("sub")
	w := newWorld(t, policy.Rule{Name: "api", Levels: []policy.Level{
		{Name: "organisation", By: by(org), Limits: limits("4/min fixed-window")},
		{Name: "team", By: by(org, team), Limits: limits("3/min fixed-window")},
		{Name: "user", By: by(org, team, usr), Limits: limits("2/min fixed-window")},
	}})
	who := func(org, team, user string) policy.Attributes {
		return (&policy.Request{Path: "/", Claims: map[string]string{"org": org, "team": team, "sub": user}}).Attributes()
	}
	w.allow(who("o", "a", "1"))
	w.allow(who("o", "a", "1"))
	w.deny(who("o", "a", "1"), "api/user", "fixed-window.min", time.Minute)
	w.allow(who("o", "a", "2"))
	w.deny(who("o", "a", "2"), "api/team", "fixed-window.min", time.Minute)
	w.allow(who("o", "b", "1"))
	w.deny(who("o", "b", "1"), "api/organisation", "fixed-window.min", time.Minute)
	w.allow(who("p", "a", "1"))
	if got, want := w.remaining("api", "user", "o", "a", "1"), []int64{0}; !slices.Equal(got, want) {
		t.Errorf("remaining %v, want %v", got, want)
	}
	if got, want := w.remaining("api", "user", "o", "b", "1"), []int64{1}; !slices.Equal(got, want) {
		t.Errorf("a request denied by its organisation left its user %v, want %v", got, want)
	}
}

func TestSoftLimitDrawsOnGrace(t *testing.T) {
	w := newWorld(t, one("api", by(policy.Header("X-User")), "soft 2/min fixed-window grace 3/day fixed-window", "10/h fixed-window"))
	warned := func(v *evaluate.Verdict) (n int, left int64) {
		for warning := range v.Warnings() {
			n, left = n+1, warning.Left.Remaining
			if warning.Rule.Name != "api" || warning.Soft.Name != "fixed-window.min" || warning.Grace.Name != "grace.fixed-window.day" {
				t.Errorf("warning of %s: %s, %s", warning.Rule.Name, warning.Soft.Name, warning.Grace.Name)
			}
		}
		return n, left
	}
	for range 2 {
		if n, _ := warned(w.allow(user("ada"))); n != 0 {
			t.Fatal("a warning below the soft limit")
		}
	}
	for want := int64(2); want >= 0; want-- {
		n, left := warned(w.allow(user("ada")))
		if n != 1 || left != want {
			t.Fatalf("%d warnings with %d left, want 1 with %d", n, left, want)
		}
	}
	// The grace lasts a day, but in a minute the soft limit has room again.
	w.deny(user("ada"), "api", "grace.fixed-window.day", time.Minute)
	w.now = w.now.Add(time.Minute)
	w.allow(user("ada"))
	if got, want := w.remaining("api", "", "ada"), []int64{4, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("hard, soft and grace have %v left, want %v", got, want)
	}
	w.allow(user("ada"))
	w.deny(user("ada"), "api", "grace.fixed-window.day", time.Minute)
}

func TestHardLimitBesideSoft(t *testing.T) {
	w := newWorld(t, one("api", nil, "soft 1/min fixed-window grace 100/day fixed-window", "3/h fixed-window"))
	for range 3 {
		w.allow(from("192.0.2.1"))
	}
	w.deny(from("192.0.2.1"), "api", "fixed-window.hour", time.Hour)
	if got, want := w.remaining("api", ""), []int64{0, 0, 98}; !slices.Equal(got, want) {
		t.Errorf("hard, soft and grace have %v left, want %v: a denial draws on no grace", got, want)
	}
}

// A log that counts denials must not count requests that pass under their grace limit as
// denied.
func TestSoftBesideCountedDenials(t *testing.T) {
	w := newWorld(t,
		one("soft", nil, "soft 1/min fixed-window grace 2/day fixed-window"),
		one("log", nil, "5/h sliding-log count-denied"),
	)
	for range 3 {
		w.allow(from("192.0.2.1"))
	}
	if got, want := w.remaining("log", ""), []int64{2}; !slices.Equal(got, want) {
		t.Errorf("the log has %v left, want %v", got, want)
	}
	w.deny(from("192.0.2.1"), "soft", "grace.fixed-window.day", time.Minute)
	if got, want := w.remaining("log", ""), []int64{1}; !slices.Equal(got, want) {
		t.Errorf("the log has %v left after a denial, want %v", got, want)
	}
}

func TestTwoSoftRules(t *testing.T) {
	w := newWorld(t,
		one("a", nil, "soft 1/min fixed-window grace 2/day fixed-window"),
		one("b", nil, "soft 2/min fixed-window grace 1/day fixed-window"),
	)
	for want, i := []int{0, 1, 2}, 0; i < 3; i++ {
		n := 0
		for range w.allow(from("192.0.2.1")).Warnings() {
			n++
		}
		if n != want[i] {
			t.Fatalf("request %d: %d warnings, want %d", i+1, n, want[i])
		}
	}
	w.deny(from("192.0.2.1"), "a", "grace.fixed-window.day", time.Minute)
}

func TestShadowAndCandidateHaveNoInfluence(t *testing.T) {
	shadow := one("trial", by(policy.Header("X-User")), "1/min fixed-window")
	shadow.Shadow = true
	enforced := one("api", by(policy.Header("X-User")), "3/min fixed-window")
	enforced.Levels[0].Candidates = []policy.Candidate{
		{Name: "tight", Limits: []sluice.Limit{sluice.MustParseLimit("2/min fixed-window")}},
		{Name: "loose", Limits: []sluice.Limit{sluice.MustParseLimit("9/min fixed-window")}},
	}
	w := newWorld(t, shadow, enforced)
	var got [][3]bool
	for range 4 {
		v := w.decide(user("ada"))
		var row [3]bool
		i := 0
		for s := range v.Trials() {
			if s.Err != nil || s.Limit.Name != "fixed-window.min" {
				t.Fatalf("side %+v", s)
			}
			row[i] = s.Allowed
			i++
		}
		if i != 3 {
			t.Fatalf("%d sides, want 3", i)
		}
		got = append(got, row)
		if v.Allowed != (len(got) <= 3) {
			t.Fatalf("request %d: allowed %v", len(got), v.Allowed)
		}
	}
	want := [][3]bool{{true, true, true}, {false, true, true}, {false, false, true}, {false, false, true}}
	if !slices.Equal(got, want) {
		t.Errorf("shadow, tight, loose: %v, want %v", got, want)
	}
	if calls, batches := w.store.Calls(), w.store.Batches(); calls != 4 || batches != 4 {
		t.Errorf("%d calls and %d of them batches for 4 requests", calls, batches)
	}
}

func TestCountingResponses(t *testing.T) {
	failures := one("failures", by(policy.IP()), "2/min fixed-window")
	failures.When = &policy.When{Status: []policy.Status{policy.Class(4)}}
	all := one("all", by(policy.IP()), "10/min fixed-window")
	w := newWorld(t, failures, all)
	for _, status := range []int{200, 404, 301, 403} {
		w.settle(w.allow(from("192.0.2.1")), policy.Response{Status: status})
	}
	w.deny(from("192.0.2.1"), "failures", "fixed-window.min", time.Minute)
	if got, want := w.remaining("all", "", "192.0.2.1"), []int64{6}; !slices.Equal(got, want) {
		t.Errorf("the denied request left %v of the other rule, want %v: its charge must be given back", got, want)
	}
	w.allow(from("192.0.2.2"))
}

func TestCountingResponsesOfParallelRequests(t *testing.T) {
	for name, hold := range map[string]bool{"peek": false, "hold": true} {
		t.Run(name, func(t *testing.T) {
			r := one("failures", nil, "2/min fixed-window")
			r.When = &policy.When{Status: []policy.Status{policy.Code(401)}, ChargeFirst: hold}
			w := newWorld(t, r)
			first, second := w.allow(from("192.0.2.1")), w.allow(from("192.0.2.1"))
			third := w.decide(from("192.0.2.1"))
			if third.Allowed == hold {
				t.Fatalf("third of three parallel requests: allowed %v", third.Allowed)
			}
			w.settle(first, policy.Response{Status: 200})
			w.settle(second, policy.Response{Status: 401})
			if got, want := w.remaining("failures", ""), []int64{1}; !slices.Equal(got, want) {
				t.Errorf("remaining %v, want %v", got, want)
			}
			w.settle(second, policy.Response{Status: 401}) // once only
			if got, want := w.remaining("failures", ""), []int64{1}; !slices.Equal(got, want) {
				t.Errorf("remaining %v after settling twice, want %v", got, want)
			}
		})
	}
}

// TestUnseenResponsesCount: a client that hangs up does not evade a rule that waits for the
// response.
func TestUnseenResponsesCount(t *testing.T) {
	for name, hold := range map[string]bool{"peek": false, "hold": true} {
		t.Run(name, func(t *testing.T) {
			r := one("failures", nil, "2/min fixed-window")
			r.When = &policy.When{Status: []policy.Status{policy.Code(401)}, ChargeFirst: hold}
			w := newWorld(t, r)
			w.settle(w.allow(from("192.0.2.1")), policy.Response{Status: 499, Unseen: true})
			w.settle(w.allow(from("192.0.2.1")), policy.Response{Status: 502})
			if got, want := w.remaining("failures", ""), []int64{1}; !slices.Equal(got, want) {
				t.Errorf("remaining %v, want %v", got, want)
			}
		})
	}
}

func TestPeekChargesNothing(t *testing.T) {
	failures := one("failures", nil, "2/min fixed-window")
	failures.When = &policy.When{Status: []policy.Status{policy.Class(4)}}
	shadow := one("shadow", nil, "3/min fixed-window")
	shadow.Shadow = true
	w := newWorld(t, failures, shadow, one("soft", nil, "soft 1/min fixed-window grace 1/h fixed-window"))
	for range 5 {
		var v evaluate.Verdict
		w.eval.Peek(t.Context(), from("192.0.2.1"), &v)
		if !v.Allowed {
			t.Fatal("denied")
		}
		w.settle(&v, policy.Response{Status: 404})
	}
	got := slices.Concat(w.remaining("failures", ""), w.remaining("shadow", ""), w.remaining("soft", ""))
	if want := []int64{2, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("remaining %v, want %v", got, want)
	}
}

func TestQueueDelaysWithinMaxWait(t *testing.T) {
	r := one("queue", nil, "1/s leaky-bucket burst 10")
	r.MaxWait = 2 * time.Second
	w := newWorld(t, r)
	for _, want := range []time.Duration{0, time.Second, 2 * time.Second} {
		if v := w.allow(from("192.0.2.1")); v.Decision.Delay != want {
			t.Errorf("delay %v, want %v", v.Decision.Delay, want)
		}
	}
	w.deny(from("192.0.2.1"), "queue", "leaky-bucket.s", time.Second)
}

func TestTiersOverridesExemptions(t *testing.T) {
	r := one("api", by(policy.Header("X-User")), "1/min fixed-window")
	l := &r.Levels[0]
	l.Tiers = &policy.Tiers{By: policy.Claim("plan"), Limits: map[string][]policy.Limit{"pro": limits("3/min fixed-window")}}
	l.Overrides = []policy.Override{
		{Key: []string{"eve"}, Limits: limits("2/min fixed-window"), Reason: "launch", Author: "ops", Expires: time.Date(2026, 3, 1, 10, 1, 0, 0, time.UTC)},
	}
	l.ExemptKeys = [][]string{{"probe"}}
	r.ExemptNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	w := newWorld(t, r)
	who := func(name, plan, address string) policy.Attributes {
		p := userRequest(name)
		p.Claims = map[string]string{"plan": plan}
		if address != "" {
			p.Client = netip.MustParseAddr(address)
		}
		return p.Attributes()
	}
	count := func(p policy.Attributes) (n int) {
		for n < 5 && w.decide(p).Allowed {
			n++
		}
		return n
	}
	tests := []struct {
		name    string
		request policy.Attributes
		want    int
	}{
		{"no plan", who("a", "", ""), 1},
		{"unknown plan", who("b", "gold", ""), 1},
		{"pro", who("c", "pro", ""), 3},
		{"override beats the plan", who("eve", "pro", ""), 2},
		{"exempt key", who("probe", "", ""), 5},
		{"exempt network", who("a", "", "10.1.2.3"), 5},
		{"exempt network, mapped into IPv6", who("a", "", "::ffff:10.1.2.3"), 5},
		{"another network", who("d", "", "11.1.2.3"), 1},
		{"a tier takes along what is spent", who("a", "pro", ""), 2},
	}
	for _, test := range tests {
		if got := count(test.request); got != test.want {
			t.Errorf("%s: %d allowed, want %d", test.name, got, test.want)
		}
	}
	w.now = w.now.Add(time.Minute)
	if got := count(who("eve", "", "")); got != 1 {
		t.Errorf("%d allowed once the override has expired, want 1", got)
	}
}

func TestSwapKeepsState(t *testing.T) {
	w := newWorld(t, one("api", nil, "3/min fixed-window"))
	for range 3 {
		w.allow(from("192.0.2.1"))
	}
	w.deny(from("192.0.2.1"), "api", "fixed-window.min", time.Minute)
	w.eval.Policy = compile(t, one("api", nil, "5/min fixed-window"))
	w.allow(from("192.0.2.1"))
	w.allow(from("192.0.2.1"))
	w.deny(from("192.0.2.1"), "api", "fixed-window.min", time.Minute)
	w.eval.Policy = compile(t)
	w.allow(from("192.0.2.1"))
}

// TestLateAnswers: late charges are undone only if the request is refused.
func TestLateAnswers(t *testing.T) {
	for _, c := range []struct {
		failure sluice.Failure
		undone  int
	}{{sluice.FailOpen, 0}, {sluice.FailClosed, 1}} {
		t.Run(c.failure.String(), func(t *testing.T) {
			r := one("api", by(policy.Header("X-User")), "10/min")
			r.Failure = c.failure
			w, undone := newWorld(t, r), 0
			w.eval.Store = testkit.Failing(sluice.NewMaybeSentError(context.DeadlineExceeded, func(undo bool, heard func(sluice.Late)) {
				if undo {
					undone++
				}
				heard(sluice.Late{Undone: undo})
			}))
			var v evaluate.Verdict
			w.eval.Decide(t.Context(), user("ada"), &v)
			if passes := c.failure == sluice.FailOpen; v.Allowed != passes || undone != c.undone {
				t.Errorf("allowed %v, undone %d times, want %v and %d", v.Allowed, undone, passes, c.undone)
			}
		})
	}
}
