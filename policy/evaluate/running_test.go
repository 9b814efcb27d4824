// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestRunningKeepsItsSlot: a request that may still be running counts until its slot expires,
// as its end is not reported.
func TestRunningKeepsItsSlot(t *testing.T) { bothWays(t, testRunningKeepsItsSlot) }

func testRunningKeepsItsSlot(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 1, func(r *policy.Rule) { r.Levels[0].InFlight.TTL = time.Second })
	w.settle(w.allow(user("ada")), policy.Response{Unseen: true, Running: true})
	w.now = w.now.Add(time.Second - time.Microsecond)
	if v := w.decide(user("ada")); v.Allowed || v.InFlight == nil {
		t.Fatalf("beside one that may be running: allowed %v, %+v", v.Allowed, v.InFlight)
	}
	w.now = w.now.Add(time.Microsecond)
	w.allow(user("ada"))
}

// TestAwaiting: Awaiting yields only charges that depend on the response and have a key.
func TestAwaiting(t *testing.T) {
	failures := one("failures", by(policy.Header("X-User")), "10/min")
	failures.When = &policy.When{Status: []policy.Status{policy.Code(401)}, ChargeFirst: true}
	counted := one("counted", by(policy.Header("X-User")), "10/min")
	counted.When = &policy.When{Status: []policy.Status{policy.Class(5)}}
	sized := one("sized", by(policy.Part{Source: source.Method}), "10/min")
	sized.Cost = policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 9}
	flight := one("flight", by(policy.Header("X-User")))
	flight.Levels[0].InFlight = &sluice.SlotLimit{Cap: 3}
	all := one("all", nil, "100/min")
	all.When = failures.When
	plain := one("plain", by(policy.Header("X-User")), "10/min")
	w := newWorld(t, failures, counted, sized, flight, all, plain)
	w.eval.Slots = w.store.Store.(sluice.SlotStore)
	got := slices.Sorted(w.allow(user("ada")).Awaiting())
	if want := []string{"counted ada", "failures ada", "flight ada", "sized GET"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range w.allow(user("ada")).Awaiting() {
		break // no panic
	}
}

// TestPresume: units that depend on the response are charged at once, and given back if the
// response does not count.
func TestPresume(t *testing.T) {
	for _, hold := range []bool{false, true} {
		r := one("api", by(policy.Header("X-User")), "5/h sliding-log")
		r.When = &policy.When{Status: []policy.Status{policy.Code(401)}, ChargeFirst: hold}
		w := newWorld(t, r)
		left := func(what string, want int64) {
			t.Helper()
			if got := w.remaining("api", "", "ada"); got[0] != want {
				t.Errorf("hold %v: %s: %d are left, want %d", hold, what, got[0], want)
			}
		}
		presume := func(v *evaluate.Verdict) {
			t.Helper()
			for range 2 {
				if err := v.Presume(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		counts, not, unseen := w.allow(user("ada")), w.allow(user("ada")), w.allow(user("ada"))
		presume(counts)
		presume(not)
		presume(unseen)
		left("three are presumed to count", 2)
		w.settle(counts, policy.Response{Status: 401})
		left("one does", 2)
		w.settle(not, policy.Response{Status: 200})
		left("one does not", 3)
		w.settle(unseen, policy.Response{Status: 502, Unseen: true, Running: true})
		left("one was not seen", 3)
		presume(not)
		left("settled already", 3)
	}
}

// TestPresumeFails: units that the store could not charge are charged with the response.
func TestPresumeFails(t *testing.T) {
	r := one("api", by(policy.Header("X-User")), "5/h sliding-log")
	r.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	w := newWorld(t, r)
	v := w.allow(user("ada"))
	w.store.Before = testkit.Failing(errors.New("down")).Before
	if err := v.Presume(t.Context()); err == nil {
		t.Error("no error of a store that fails")
	}
	w.store.Before = nil
	w.settle(v, policy.Response{Status: 401})
	if got := w.remaining("api", "", "ada"); got[0] != 4 {
		t.Errorf("%d are left, want 4", got[0])
	}
}

// TestPresumedBeyondTheQuota: requests that do not count in the end give back only the units
// presumed for them. Otherwise a client could hang up on responses that do not count to erase
// those that do.
func TestPresumedBeyondTheQuota(t *testing.T) {
	for _, limits := range [][]string{
		{"5/h sliding-log"},
		{"5/h fixed-window"},
		{"5/h sliding-counter"},
		{"5/h sliding-histogram"},
		{"5/h burst 5"},
		{"5/h leaky-bucket nodelay"},
		{"5/h sliding-log debt 3"},
		{"5/h fixed-window debt 3"},
		{"5/h sliding-counter debt 3"},
		{"5/h burst 5 debt 3"},
		{"9/h sliding-log", "day: 5/day sliding-log"},
		{"5/h sliding-log", "day: 9/day sliding-log"},
	} {
		t.Run(strings.Join(limits, ", "), func(t *testing.T) {
			r := one("api", by(policy.Header("X-User")), limits...)
			r.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
			other := one("other", by(policy.Part{Source: source.Method}), "7/h sliding-log")
			other.When = r.When
			w := newWorld(t, r, other)
			var fail, good []*evaluate.Verdict
			for range 5 {
				fail, good = append(fail, w.allow(user("ada"))), append(good, w.allow(user("ada")))
			}
			for _, v := range fail {
				w.settle(v, policy.Response{Status: 401})
			}
			for _, v := range good {
				if err := v.Presume(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, v := range good {
				w.settle(v, policy.Response{Status: 200})
			}
			if left := w.remaining("api", "", "ada"); slices.Min(left) > 0 {
				t.Errorf("%d are left behind five failures, want none of one limit", left)
			}
			if left := w.remaining("other", "", "GET"); left[0] > 2 {
				t.Errorf("%d are left behind five failures of seven, want 2 at most", left)
			}
		})
	}
}

// TestPresumedInPart: units that did not fit when presumed are charged with the response if
// they fit by then.
func TestPresumedInPart(t *testing.T) {
	r := one("api", by(policy.Header("X-User")), "2/h sliding-log")
	r.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	w := newWorld(t, r)
	a, b, c := w.allow(user("ada")), w.allow(user("ada")), w.allow(user("ada"))
	for _, v := range []*evaluate.Verdict{a, b, c} {
		if err := v.Presume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(a, policy.Response{Status: 200})
	w.settle(c, policy.Response{Status: 401})
	w.settle(b, policy.Response{Status: 401})
	if left := w.remaining("api", "", "ada"); left[0] != 0 {
		t.Errorf("%d are left of 2 behind two that count, want 0", left)
	}
}
