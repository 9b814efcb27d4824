// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func TestSlotLimitValidate(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit sluice.SlotLimit
		want  []string
	}{
		{"zero", sluice.SlotLimit{}, []string{"Cap", "TTL"}},
		{"least", sluice.SlotLimit{Cap: 1, TTL: time.Millisecond}, nil},
		{"most", sluice.SlotLimit{Name: strings.Repeat("z", 64), Cap: bounds.MaxSlots, TTL: sluice.MaxWindow}, nil},
		{"above", sluice.SlotLimit{Name: strings.Repeat("z", 65), Cap: bounds.MaxSlots + 1, TTL: sluice.MaxWindow + time.Microsecond}, []string{"Cap", "Name", "TTL"}},
		{"extremes", sluice.SlotLimit{Cap: math.MinInt64, TTL: math.MinInt64}, []string{"Cap", "TTL"}},
		{"TTL of half µs", sluice.SlotLimit{Cap: 1, TTL: time.Second + 500}, []string{"TTL"}},
		{"TTL below 1 ms", sluice.SlotLimit{Cap: 1, TTL: 999 * time.Microsecond}, []string{"TTL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := faultyFields(t, c.limit.Validate()); !slices.Equal(got, c.want) {
				t.Errorf("faults in %v, want %v", got, c.want)
			}
		})
	}
}

func TestSlotRequestValidate(t *testing.T) {
	long := strings.Repeat("x", sluice.MaxKeyBytes+1)
	limit := sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Second}
	valid := sluice.SlotRequest{Scope: "s", Limit: limit, Owner: "o", Cost: 1}
	for _, c := range []struct {
		name   string
		change func(*sluice.SlotRequest)
		field  string
	}{
		{"acquire", func(*sluice.SlotRequest) {}, ""},
		{"longest key and owner", func(r *sluice.SlotRequest) { r.Key, r.Owner = long[1:], long[1:] }, ""},
		{"unknown operation", func(r *sluice.SlotRequest) { r.Op = sluice.SlotPeek + 1 }, "Op"},
		{"a peek without an owner", func(r *sluice.SlotRequest) { r.Op, r.Owner = sluice.SlotPeek, "" }, ""},
		{"no owner", func(r *sluice.SlotRequest) { r.Owner = "" }, "Owner"},
		{"long owner", func(r *sluice.SlotRequest) { r.Owner = long }, "Owner"},
		{"long key", func(r *sluice.SlotRequest) { r.Key = long }, "Key"},
		{"cost zero", func(r *sluice.SlotRequest) { r.Cost = 0 }, "Cost"},
		{"cost smallest", func(r *sluice.SlotRequest) { r.Cost = math.MinInt64 }, "Cost"},
		{"no scope", func(r *sluice.SlotRequest) { r.Scope = "" }, "Scope"},
		{"long scope", func(r *sluice.SlotRequest) { r.Scope = long }, "Scope"},
		{"no name", func(r *sluice.SlotRequest) { r.Limit.Name = "" }, "Limit"},
		{"no cap", func(r *sluice.SlotRequest) { r.Limit.Cap = 0 }, "Limit"},
		{"no ttl", func(r *sluice.SlotRequest) { r.Limit.TTL = 0 }, "Limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := valid
			c.change(&req)
			err := req.Validate()
			var fault *sluice.RequestError
			switch {
			case c.field == "" && err != nil:
				t.Errorf("got %v, want nil", err)
			case c.field != "" && (!errors.As(err, &fault) || fault.Field != c.field):
				t.Errorf("got %v, want a *RequestError on %s", err, c.field)
			}
		})
	}
}

func TestNewSlotsRefuses(t *testing.T) {
	store := memstore.New(memstore.Options{})
	one := sluice.SlotLimit{Cap: 1, TTL: time.Second}
	for _, c := range []struct {
		name  string
		store sluice.SlotStore
		scope string
		limit sluice.SlotLimit
		says  string
	}{
		{"no store", nil, "s", one, "store is nil"},
		{"no scope", store, "", one, "scope of 0 bytes: must have 1 to 256"},
		{"long scope", store, strings.Repeat("s", 257), one, "scope of 257 bytes"},
		{"bad limit", store, "s", sluice.SlotLimit{}, "Cap: 0 must be 1 to 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := sluice.NewSlots(c.store, c.scope, c.limit); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestSlots(t *testing.T) {
	now := testkit.NewClock()
	slots, err := sluice.NewSlots(memstore.New(memstore.Options{Now: now.Now}), "jobs", sluice.SlotLimit{Cap: 3, TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	acquire := func(owner string, cost int64) func() (sluice.SlotDecision, error) {
		return func() (sluice.SlotDecision, error) { return slots.Acquire(ctx, "k", owner, cost) }
	}
	renew := func(owner string) func() (sluice.SlotDecision, error) {
		return func() (sluice.SlotDecision, error) { return slots.Renew(ctx, "k", owner) }
	}
	release := func(owner string) func() (sluice.SlotDecision, error) {
		return func() (sluice.SlotDecision, error) { return slots.Release(ctx, "k", owner) }
	}
	for _, step := range []struct {
		name string
		pass time.Duration // before it
		do   func() (sluice.SlotDecision, error)
		want sluice.SlotDecision
	}{
		{"first", 0, acquire("a", 2), sluice.SlotDecision{Allowed: true, Held: 2, Free: 1}},
		{"too much", 4 * time.Second, acquire("b", 2), sluice.SlotDecision{Held: 2, Free: 1, RetryAfter: 6 * time.Second}},
		{"what is left", 0, acquire("b", 1), sluice.SlotDecision{Allowed: true, Held: 3}},
		{"again is not twice", 0, acquire("b", 1), sluice.SlotDecision{Allowed: true, Held: 3}},
		{"renewed", 5 * time.Second, renew("a"), sluice.SlotDecision{Allowed: true, Held: 3}},
		{"expired", 5 * time.Second, renew("b"), sluice.SlotDecision{Held: 2, Free: 1}},
		{"released", 0, release("a"), sluice.SlotDecision{Allowed: true, Free: 3}},
		{"released twice", 0, release("a"), sluice.SlotDecision{Free: 3}},
	} {
		now.Advance(step.pass)
		got, err := step.do()
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got != step.want {
			t.Errorf("%s: got %+v, want %+v", step.name, got, step.want)
		}
	}
}
