// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestManyVersions: the spent units of a key count under every version of a limit,
// however many versions there are (tiers, overrides).
func TestManyVersions(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"", " sliding-log", " fixed-window", " sliding-counter", " sliding-histogram", " interval-refill"} {
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{Now: clock.Now})
		versions := testkit.Steps(300, 3000)
		plans := make([]*sluice.Plan, versions)
		for i := range plans {
			plans[i] = testkit.Plan(t, "s", fmt.Sprintf("n: %d/h%s", 100+i, algorithm))
		}
		if d := testkit.Take(t, s, testkit.Request(plans[0], "k", 100)); !d.Allowed {
			t.Fatalf("%s: got %+v", algorithm, d)
		}
		for i, p := range plans[1:] {
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint("other ", i), 1))
		}
		last := testkit.Request(plans[versions-1], "k", sluice.MaxQuota)
		last.Op = sluice.OpTakeUpTo
		if d := testkit.Take(t, s, last); d.Spent != int64(versions-1) {
			t.Errorf("%q: the last version got %d, want %d", algorithm, d.Spent, versions-1)
		}
	}
}

// TestStateBudget: a key takes at most 40 bytes under one algorithm and window,
// however many versions there are and whichever wrote it.
func TestStateBudget(t *testing.T) {
	keys := testkit.Steps(10_000, 100_000)
	for _, suffix := range []string{"", " fixed-window", " sliding-counter", " interval-refill"} {
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: 2 * keys})
		for i := range keys {
			p := testkit.Plan(t, "s", fmt.Sprintf("n: %d/h%s", 1+i, suffix))
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint("key ", i), 1))
		}
		for i := range keys { // and under another one
			if i%7 == 0 {
				testkit.Take(t, s, testkit.Request(testkit.Plan(t, "s", fmt.Sprintf("n: %d/h%s", 2+i, suffix)), fmt.Sprint("key ", i), 1))
			}
		}
		st := s.Stats()
		if perKey := float64(st.Bytes) / float64(keys); st.States != keys || perKey > 40 {
			t.Errorf("%q: got %d states of %.1f bytes each, want %d of at most 40", suffix, st.States, perKey, keys)
		}
	}
}

// TestAnotherWindow: each further window that still counts has a state of its own.
func TestAnotherWindow(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	texts := []string{"n: 10/min", "n: 100/h fixed-window", "n: 1000/day sliding-counter", "n: 5/s sliding-log", "n: 2000/day fixed-window"}
	for i, text := range texts {
		if d := testkit.Take(t, s, testkit.Request(testkit.Plan(t, "s", text), "k", 1)); !d.Allowed {
			t.Errorf("%s: got %+v", text, d)
		}
		if n := s.Stats().States; n != min(i+1, 4) {
			t.Errorf("%s: got %d states, want %d", text, n, min(i+1, 4))
		}
	}
	clock.Advance(25 * time.Hour)
	testkit.Take(t, s, testkit.Request(testkit.Plan(t, "s", texts[0]), "other", 1)) // others have died
	if d := testkit.Take(t, s, testkit.Request(testkit.Plan(t, "s", texts[0]), "k", 10)); !d.Allowed {
		t.Errorf("a day later: got %+v", d)
	}
}

// TestInstantsOutliveATable: Since and Last of a balance are kept as long as it lives,
// however often tables are rebuilt.
func TestInstantsOutliveATable(t *testing.T) {
	for _, c := range []struct {
		slow, fast string
		cost       int64
	}{
		{"n: 10/180d", "n: 21/180d burst 10", 5},
		{"n: 300000007/180d", "n: 600000011/180d", 100_000_000}, // their remainders need another size of slot
	} {
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{Now: clock.Now})
		slow, fast := testkit.Plan(t, "s", c.slow), testkit.Plan(t, "s", c.fast)
		all := testkit.Take(t, s, testkit.Request(slow, "k", slow.Term(0).Burst))
		d := testkit.Take(t, s, testkit.Request(fast, "k", fast.Term(0).Burst-c.cost))
		if !all.Allowed || d.Allowed {
			t.Fatalf("%s: got %+v, then %+v", c.slow, all, d)
		}
		for left := d.RetryAfter; left > 0; {
			if got := testkit.Take(t, s, testkit.Request(fast, "k", fast.Term(0).Burst-c.cost)); got.RetryAfter != left {
				t.Fatalf("%s: got %v, want what is left of %v, %v", c.slow, got.RetryAfter, d.RetryAfter, left)
			}
			day := min(24*time.Hour, left)
			clock.Advance(day)
			left -= day
			for i := range testkit.Steps(50, 500) { // tables grow
				testkit.Take(t, s, testkit.Request(slow, fmt.Sprint(left, i), 1))
				testkit.Take(t, s, testkit.Request(fast, fmt.Sprint(left, i), 1))
			}
		}
		if got := testkit.Take(t, s, testkit.Request(fast, "k", fast.Term(0).Burst-c.cost)); !got.Allowed {
			t.Errorf("%s: when its time has come got %+v", c.slow, got)
		}
	}
}

// TestRuleStartsAtTimeZero: a rule has its initial deficit also if it starts
// at the first instant.
func TestRuleStartsAtTimeZero(t *testing.T) {
	s := memstore.New(memstore.Options{Now: func() time.Time { return time.UnixMicro(0) }})
	p := testkit.Plan(t, "s", "10/s initial 3")
	for i := range 4 {
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed != (i < 3) {
			t.Errorf("take %d: got %+v", i+1, d)
		}
	}
}
