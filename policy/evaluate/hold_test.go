// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// tokens is a rule that holds the estimate of a cost in a header.
func tokens(limit string) policy.Rule {
	r := one("tokens", by(policy.Header("X-User")), limit)
	r.Cost = policy.Cost{Of: policy.ResponseHeader, Header: "X-Tokens", Most: 1000, Units: 40}
	r.HoldFor = time.Minute
	return r
}

func stating(tokens string) policy.Response {
	return policy.Response{Status: http.StatusOK, Header: func(string) []string { return []string{tokens} }}
}

// TestEstimateIsHeld: an estimate is held until the response states the cost. Without an end the
// units come back by themselves, and a request that ends after that is charged in full.
func TestEstimateIsHeld(t *testing.T) {
	other := one("requests", nil, "100/day fixed-window")
	w := newWorld(t, tokens("100/day fixed-window debt 900"), other)
	left := func(want ...int64) {
		t.Helper()
		got := append(w.remaining("tokens", "", "ada"), w.remaining("requests", "")...)
		if !slices.Equal(got, want) {
			t.Errorf("%d are left, want %d", got, want)
		}
	}
	first, second := w.allow(user("ada")), w.allow(user("ada"))
	left(20, 98)
	if d := w.decide(user("ada")); d.Allowed {
		t.Fatalf("got %+v, want that the rest is held", d.Decision)
	}
	w.settle(first, stating("15"))
	left(45, 98)
	w.now = w.now.Add(time.Minute)
	left(85, 99) // the second hold has ended by itself
	w.settle(second, stating("70"))
	left(15, 98)
	w.settle(second, stating("70"))
	left(15, 98)

	third := w.allow(user("eve"))
	w.settle(third, stating("300"))
	if got := w.remaining("tokens", "", "eve"); got[0] != 0 {
		t.Errorf("%d are left, want a debt", got)
	}
	if d := w.decide(user("eve")); d.Allowed {
		t.Errorf("got %+v, want a debt", d.Decision)
	}
}

// TestHeldAsks: a held request takes with a hold and is settled once, by its id. If another
// rule denies, its hold is cancelled.
func TestHeldAsks(t *testing.T) {
	counts := one("failures", by(policy.Header("X-User")), "1/day fixed-window")
	counts.When = &policy.When{Status: []policy.Status{policy.Class(5)}}
	w := newWorld(t, tokens("100/day fixed-window"), counts)
	var held []sluice.Request
	w.store.After = func(req sluice.Request, _ sluice.Result) error {
		if req.Hold != nil {
			held = append(held, req)
		}
		return nil
	}
	v := w.allow(user("ada"))
	w.settle(v, policy.Response{Status: http.StatusInternalServerError, Header: func(string) []string { return []string{"7"} }})
	if len(held) != 2 || held[0].Op != sluice.OpTake || held[0].Hold.TTL != time.Minute || held[1].Op != sluice.OpSettle ||
		held[1].Hold.ID != held[0].Hold.ID || held[1].Cost != 7 || held[1].Counted != 40 {
		t.Errorf("got %+v", held)
	}
	if d := w.decide(user("ada")); d.Allowed {
		t.Fatalf("got %+v, want a denial by failures", d.Decision)
	}
	if got := w.remaining("tokens", "", "ada"); got[0] != 93 {
		t.Errorf("%d are left, want that a denied request holds nothing", got)
	}
}

// TestShadowHoldsNothing: a shadow rule is charged and settled as without a hold.
func TestShadowHoldsNothing(t *testing.T) {
	r := tokens("100/day fixed-window")
	r.Shadow = true
	w := newWorld(t, r)
	v := w.allow(user("ada"))
	w.now = w.now.Add(time.Hour)
	if got := w.remaining("tokens", "", "ada"); got[0] != 60 {
		t.Errorf("%d are left, want 60", got)
	}
	w.settle(v, stating("5"))
	if got := w.remaining("tokens", "", "ada"); got[0] != 95 {
		t.Errorf("%d are left, want 95", got)
	}
}

// TestSettlementIsRepeated: a settlement whose answer is lost is sent once more, and charged once.
func TestSettlementIsRepeated(t *testing.T) {
	w := newWorld(t, tokens("100/day fixed-window debt 900"))
	v := w.allow(user("ada"))
	var retries []bool
	w.store.After = func(req sluice.Request, _ sluice.Result) error {
		if req.Op != sluice.OpSettle {
			return nil
		}
		if retries = append(retries, req.Hold.Retry); len(retries) == 1 {
			return errors.New("the answer is lost")
		}
		return nil
	}
	w.settle(v, stating("55"))
	if got := w.remaining("tokens", "", "ada"); got[0] != 45 || !slices.Equal(retries, []bool{false, true}) {
		t.Errorf("%d are left after %v, want 45 after one repetition", got, retries)
	}
}
