// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func testBudgets(t *testing.T, o Options) *Budgets {
	t.Helper()
	s, err := NewBudgets("test", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testBudget(t *testing.T) *Budget {
	t.Helper()
	return testBudgets(t, Options{MaxRetryAfter: time.Minute}).Of("k", "h")
}

// TestBudgetsAreBounded: the least recently used budget is forgotten.
func TestBudgetsAreBounded(t *testing.T) {
	s := testBudgets(t, Options{MaxBudgets: 2})
	a, b := s.Of("a", "h"), s.Of("b", "h")
	if s.Of("a", "h") != a {
		t.Error("a was not kept")
	}
	s.Of("c", "h")
	if s.Of("a", "h") != a || len(s.byKey) != 2 || s.used.Len() != 2 {
		t.Errorf("a was forgotten, or %d are kept; want a and c", len(s.byKey))
	}
	if s.Of("b", "h") == b {
		t.Error("b was kept; want the one forgotten that was not used for longest")
	}
}

// TestMemoryIsBounded: with any number of hosts and limits, and any change of names, memory
// stays within the options.
func TestMemoryIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // repeatable
	s := testBudgets(t, Options{MaxBudgets: 8})
	most := 0
	for i := range 2000 {
		var limits, policies []string
		for range r.IntN(12) {
			name := strings.Repeat("n", r.IntN(2*maxNameBytes)) + strconv.Itoa(r.IntN(1000))
			limits = append(limits, fmt.Sprintf(`"%s";r=%d;t=1`, name, 1000+r.IntN(1000)))
			policies = append(policies, fmt.Sprintf("%s;q=1000;w=1;pk=:QQ==:", name))
		}
		now := time.Unix(int64(1000+i), 0)
		b := s.Of(fmt.Sprintf("h%d", i%100/(1+i%7)), "h")
		b.next(now)
		b.spend(now)
		said := Statement{At: now}
		said.Draft11(policies, limits)
		b.Answered(b.sent, said)
		if n := len(s.byKey); n > 8 || s.used.Len() != n {
			t.Fatalf("%d budgets of %d are remembered; want at most 8", s.used.Len(), n)
		}
		for _, e := range s.byKey {
			b := e.Value.(*Budget) // the list holds nothing else
			most = max(most, len(b.paces))
			if len(b.paces) > maxItems || cap(b.paces) > 4*maxItems {
				t.Fatalf("%d limits in room for %d are remembered; want at most %d", len(b.paces), cap(b.paces), maxItems)
			}
			for _, p := range b.paces {
				if len(p.Name)+len(p.Partition) > maxNameBytes || len(p.returns) > mostReturns {
					t.Fatalf("a name of %d bytes and %d instants are remembered", len(p.Name), len(p.returns))
				}
			}
		}
	}
	if most < maxItems {
		t.Errorf("%d limits at most were remembered; want the bound tried", most)
	}
}

// TestLateAnswers: a late answer can only tighten.
func TestLateAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	b := testBudget(t)
	b.spend(now)
	b.spend(now)
	say := func(left int64) Statement {
		return Statement{At: now, Items: []Item{{Name: "a", Stated: true, Left: left, Span: time.Second}}}
	}
	b.Answered(2, say(3))
	if got := b.paces[0].left; got != 2 {
		t.Errorf("left is %d; want 2 of 3, as one request is in flight", got)
	}
	b.Answered(1, say(9))
	if got := b.paces[0].left; got != 2 {
		t.Errorf("left is %d after a late answer; want 2", got)
	}
	if b.inFlight != 0 {
		t.Errorf("%d in flight; want 0", b.inFlight)
	}
}

// TestHoldOfAnswersInFlight: no answer to a request sent before the first denial was known
// shortens the wait; one to a later request does.
func TestHoldOfAnswersInFlight(t *testing.T) {
	now := time.Unix(1000, 0)
	b := testBudget(t)
	for range 4 {
		b.spend(now)
	}
	for i, c := range []struct {
		s    Statement
		want time.Duration // of the wait, from now
	}{
		{Statement{Denied: true, Wait: 30 * time.Second}, 30 * time.Second},
		{Statement{Denied: true, Wait: 10 * time.Second}, 30 * time.Second},
		{Statement{}, 30 * time.Second},
		{Statement{Denied: true, Wait: 40 * time.Second}, 40 * time.Second},
		{Statement{Denied: true, Wait: 20 * time.Second}, 20 * time.Second},
		{Statement{Denied: true}, 20 * time.Second},
		{Statement{}, 0},
	} {
		if i >= 4 {
			b.spend(now)
		}
		c.s.At = now
		b.Answered(uint64(i+1), c.s)
		if got := max(b.blockedUntil.Sub(now), 0); got != c.want {
			t.Errorf("after answer %d: delayed by %v; want %v", i+1, got, c.want)
		}
	}
}

// TestHeardKeepsTheCount: an answer to a call that is no longer in flight changes the limits,
// and not the number of calls in flight.
func TestHeardKeepsTheCount(t *testing.T) {
	now := time.Unix(1000, 0)
	b := testBudget(t)
	b.spend(now)
	b.spend(now)
	b.Lost()
	b.Heard(1, Statement{At: now, Denied: true, Wait: 30 * time.Second})
	if b.inFlight != 1 || b.blockedUntil.Sub(now) != 30*time.Second {
		t.Errorf("%d in flight, delayed by %v; want 1 and 30s", b.inFlight, b.blockedUntil.Sub(now))
	}
}

// TestSilence: if only denials state a limit, silence does not end it before MaxRetryAfter; if
// every answer states the limits, it ends with its time.
func TestSilence(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name   string
		silent bool
		policy string
		blind  bool
		after  time.Duration
		want   int // limits that are remembered
	}{
		{"in its time", true, `"a";q=10;w=1`, false, 500 * time.Millisecond, 1},
		{"after its time", true, `"a";q=10;w=1`, false, 59 * time.Second, 1},
		{"after MaxRetryAfter", true, `"a";q=10;w=1`, false, time.Minute, 0},
		{"no longer mentioned", false, `"a";q=10;w=1`, false, 59 * time.Second, 0},
		{"no quota", true, ``, false, 59 * time.Second, 0},
		{"no longer valid", true, `"a";q=10;w=1`, true, 500 * time.Millisecond, 0},
	} {
		b := testBudget(t)
		b.spend(start)
		said := Statement{At: start, Denied: true, Wait: time.Second}
		said.Draft11([]string{c.policy}, []string{`"a";r=0;t=1`})
		b.Answered(1, said)
		b.paces[0].blind = c.blind
		now := start.Add(c.after)
		b.spend(now)
		b.Answered(2, Statement{At: now, Silent: c.silent})
		if got := len(b.paces); got != c.want {
			t.Errorf("%s: %d limits are remembered; want %d", c.name, got, c.want)
		}
	}
}

// TestNewBudgetsRefuses: every fault is reported, with the name of the package.
func TestNewBudgetsRefuses(t *testing.T) {
	_, err := NewBudgets("p", Options{MaxWait: -1, MaxRetryAfter: sluice.MaxWindow + 1, MaxBudgets: -1})
	const want = "p: MaxWait: -1ns must be 0 to 8784h0m0s\np: MaxRetryAfter: 8784h0m0.000000001s must be 0 to 8784h0m0s\np: MaxBudgets: -1 is negative; leave it 0 for 1024"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
