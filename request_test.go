// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

func TestRequestValidate(t *testing.T) {
	var (
		login = testkit.Compile(t, "login", sluice.PerMinute(5))
		api   = testkit.Compile(t, "api", sluice.PerMinute(5), sluice.PerHour(50))
		again = testkit.Compile(t, "login", sluice.PerHour(5)) // another plan of login's scope
	)
	charge := func(p *sluice.Plan, key string, cost int64) sluice.Charge {
		return sluice.Charge{Plan: p, Key: key, Cost: cost}
	}
	more := func(n int) []sluice.Charge {
		all := make([]sluice.Charge, n)
		for i := range all {
			all[i] = charge(api, strings.Repeat("k", i), 1)
		}
		return all
	}
	one := charge(login, "u1", 1)
	forOneMinute := &sluice.Hold{ID: "a", TTL: time.Minute}
	slot := sluice.SlotRequest{Scope: "s", Limit: sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Second}, Key: "u1", Owner: "o", Cost: 1}
	for _, c := range []struct {
		name  string
		req   sluice.Request
		field string // "" if valid
		says  string
	}{
		{name: "take", req: sluice.Request{Charge: one}},
		{name: "cost zero", req: sluice.Request{Charge: charge(login, "u1", 0)}},
		{name: "largest cost", req: sluice.Request{Charge: charge(login, "u1", sluice.MaxQuota)}},
		{name: "cost above", req: sluice.Request{Charge: charge(login, "u1", sluice.MaxQuota+1)}, field: "Cost", says: "9007199254740992 is more than 9007199254740991"},
		{name: "largest integer", req: sluice.Request{Charge: charge(login, "u1", math.MaxInt64)}, field: "Cost", says: "is more than"},
		{name: "cost negative", req: sluice.Request{Charge: charge(login, "u1", -1)}, field: "Cost", says: "-1 is negative; units are given back with a refund"},
		{name: "smallest integer", req: sluice.Request{Charge: charge(login, "u1", math.MinInt64)}, field: "Cost", says: "is negative"},
		{name: "empty key", req: sluice.Request{Charge: charge(login, "", 1)}},
		{name: "longest key", req: sluice.Request{Charge: charge(login, strings.Repeat("\xff", sluice.MaxKeyBytes), 1)}},
		{name: "key too long", req: sluice.Request{Charge: charge(login, strings.Repeat("k", sluice.MaxKeyBytes+1), 1)}, field: "Key", says: "65537 bytes; a key has at most 65536"},
		{name: "no plan", req: sluice.Request{}, field: "Plan", says: "is nil; make one with Compile"},
		{name: "no plan but an operation", req: sluice.Request{Op: sluice.OpReset}, field: "Plan", says: "is nil"},

		{name: "last operation", req: sluice.Request{Op: sluice.OpReset, Charge: one}},
		{name: "no operation", req: sluice.Request{Op: sluice.OpExtend + 1, Charge: one}, field: "Op", says: "Op(11) is not an operation"},
		{name: "negative cost of a refund", req: sluice.Request{Op: sluice.OpRefund, Charge: charge(login, "u1", -1), At: 1}, field: "Cost", says: "negative"},
		{name: "hold", req: sluice.Request{Charge: one, Hold: forOneMinute}},
		{name: "peek at a hold", req: sluice.Request{Op: sluice.OpPeek, Charge: one, Hold: forOneMinute}},
		{name: "settle", req: sluice.Request{Op: sluice.OpSettle, Charge: one, Hold: &sluice.Hold{ID: "a"}}},
		{name: "extend", req: sluice.Request{Op: sluice.OpExtend, Charge: one, Hold: forOneMinute}},
		{name: "settle of nothing", req: sluice.Request{Op: sluice.OpSettle, Charge: one}, field: "Hold", says: "settle must name a hold"},
		{name: "hold of a charge", req: sluice.Request{Op: sluice.OpCharge, Charge: one, Hold: forOneMinute}, field: "Hold", says: "does not go with charge"},
		{name: "hold with a slot", req: sluice.Request{Charge: one, Hold: forOneMinute, Slot: new(sluice.Slot)}, field: "Hold", says: "does not go with a slot"},
		{name: "hold without an id", req: sluice.Request{Charge: one, Hold: &sluice.Hold{TTL: time.Minute}}, field: "Hold", says: "the id has 0 bytes"},
		{name: "hold of a long id", req: sluice.Request{Charge: one, Hold: &sluice.Hold{ID: strings.Repeat("a", 257), TTL: time.Minute}}, field: "Hold", says: "the id has 257 bytes"},
		{name: "short hold", req: sluice.Request{Charge: one, Hold: &sluice.Hold{ID: "a", TTL: time.Millisecond}}, field: "Hold", says: "1ms must be 1s to 24h"},
		{name: "long hold", req: sluice.Request{Charge: one, Hold: &sluice.Hold{ID: "a", TTL: 25 * time.Hour}}, field: "Hold", says: "must be 1s to 24h"},
		{name: "extension by nothing", req: sluice.Request{Op: sluice.OpExtend, Charge: one, Hold: &sluice.Hold{ID: "a"}}, field: "Hold", says: "must be 1s to 24h"},
		{name: "refund", req: sluice.Request{Op: sluice.OpRefund, Charge: one, At: 1}},
		{name: "refund without receipt", req: sluice.Request{Op: sluice.OpRefund, Charge: one}, field: "At", says: "pass its At"},
		{name: "refund before 1970", req: sluice.Request{Op: sluice.OpRefund, Charge: one, At: -1}, field: "At", says: "pass its At"},
		{name: "longest wait", req: sluice.Request{Op: sluice.OpReserve, Charge: one, MaxWait: sluice.MaxWait}},
		{name: "wait too long", req: sluice.Request{Op: sluice.OpReserve, Charge: one, MaxWait: sluice.MaxWait + 1}, field: "MaxWait", says: "must be 0 to 1h0m0s"},
		{name: "wait negative", req: sluice.Request{Charge: one, MaxWait: -1}, field: "MaxWait", says: "-1ns must be 0 to"},
		{name: "wait smallest", req: sluice.Request{Charge: one, MaxWait: math.MinInt64}, field: "MaxWait", says: "must be 0"},

		{name: "slot", req: sluice.Request{Charge: one, Slot: &sluice.Slot{SlotRequest: slot}}},
		{name: "slot without owner", req: sluice.Request{Charge: one, Slot: &sluice.Slot{SlotRequest: sluice.SlotRequest{Scope: "s", Limit: slot.Limit, Cost: 1}}}, field: "Owner", says: "0 bytes"},
		{name: "slot of another operation", req: sluice.Request{Op: sluice.OpPeek, Charge: one, Slot: &sluice.Slot{SlotRequest: slot}}, field: "Slot", says: "peek does not go with slot operation 0"},
		{name: "slot of a charge", req: sluice.Request{Op: sluice.OpCharge, Charge: one, Slot: &sluice.Slot{SlotRequest: slot}}, field: "Slot", says: "a take acquires a slot"},

		{name: "room for outcomes", req: sluice.Request{Charge: one, More: more(1), Outcomes: new(make(sluice.Outcomes, 3))}},
		{name: "more room than needed", req: sluice.Request{Charge: one, Outcomes: new(make(sluice.Outcomes, 9))}},
		{name: "no room for outcomes", req: sluice.Request{Charge: one, Outcomes: &sluice.Outcomes{}}, field: "Outcomes", says: "room for 0 of 1 limits"},
		{name: "too little room", req: sluice.Request{Charge: one, More: more(1), Outcomes: new(make(sluice.Outcomes, 2))}, field: "Outcomes", says: "room for 2 of 3 limits"},
		{name: "too little room for a plain take", req: sluice.Request{Charge: charge(api, "", 1), Outcomes: new(make(sluice.Outcomes, 1))}, field: "Outcomes", says: "room for 1 of 2 limits"},

		{name: "most charges", req: sluice.Request{Charge: one, More: more(sluice.MaxCharges - 1)}},
		{name: "too many charges", req: sluice.Request{Charge: one, More: more(sluice.MaxCharges)}, field: "More", says: "17 charges; a request has at most 16"},
		{name: "one plan, two keys", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(login, "u2", 1)}}},
		{name: "one key, two plans", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(api, "u1", 1)}}},
		{name: "first key twice", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(api, "u1", 1), one}}, field: "More", says: "charge 3 is of the same scope and key as the first"},
		{name: "further key twice", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(api, "u1", 1), charge(api, "u2", 1), charge(api, "u1", 5)}}, field: "More", says: "charges 2 and 4 are of the same scope and key"},
		{name: "one scope in two plans", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(again, "u1", 1)}}, field: "More", says: "charge 2 is of the same scope and key as the first"},
		{name: "no plan further on", req: sluice.Request{Charge: one, More: []sluice.Charge{{Key: "u1"}}}, field: "Plan", says: "is nil"},
		{name: "negative cost further on", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(api, "u1", -1)}}, field: "Cost", says: "negative"},
		{name: "long key further on", req: sluice.Request{Charge: one, More: []sluice.Charge{charge(api, strings.Repeat("k", sluice.MaxKeyBytes+1), 1)}}, field: "Key", says: "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.req.Validate()
			if c.field == "" {
				if err != nil {
					t.Fatalf("got %v, want nil", err)
				}
				if allocs := testing.AllocsPerRun(100, func() {
					if c.req.Validate() != nil {
						t.Error("valid, then not")
					}
				}); allocs != 0 {
					t.Errorf("%v allocations, want 0", allocs)
				}
				return
			}
			var fault *sluice.RequestError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v, want a *RequestError", err)
			}
			if fault.Field != c.field || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s to say %q", err, c.field, c.says)
			}
		})
	}
}

func TestRequestLimits(t *testing.T) {
	one := testkit.Compile(t, "one", sluice.PerMinute(1))
	two := testkit.Compile(t, "two", sluice.PerMinute(1), sluice.PerHour(1))
	req := sluice.Request{Charge: sluice.Charge{Plan: one}, More: []sluice.Charge{{Plan: two}, {Plan: two, Key: "k"}}}
	if got, want := req.Limits(), 5; got != want {
		t.Errorf("Limits = %d, want %d", got, want)
	}
}

func TestRequestCharges(t *testing.T) {
	one := testkit.Compile(t, "one", sluice.PerMinute(1))
	two := testkit.Compile(t, "two", sluice.PerMinute(1), sluice.PerHour(1))
	req := sluice.Request{Charge: sluice.Charge{Plan: one, Key: "a"}, More: []sluice.Charge{{Plan: two, Key: "b"}, {Plan: two, Key: "c"}}}
	for i, want := range []struct {
		key  string
		term int
	}{{"a", 0}, {"b", 0}, {"b", 1}, {"c", 0}, {"c", 1}, {"a", 0}} {
		if c, term := req.ChargeAt(i); c.Key != want.key || term != want.term {
			t.Errorf("ChargeAt(%d) = %q, %d, want %q, %d", i, c.Key, term, want.key, want.term)
		}
	}
	for i, want := range []string{"a", "b", "c"} {
		if got := req.Nth(i).Key; got != want {
			t.Errorf("Nth(%d) is of key %q, want %q", i, got, want)
		}
	}
	if got := req.Charges(); got != 3 {
		t.Errorf("Charges = %d, want 3", got)
	}
	if c, term := req.ChargeAt(-1); c.Key != "a" || term != 0 {
		t.Errorf("ChargeAt(-1) = %q, %d, want the first limit", c.Key, term)
	}
}

func TestInstant(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 9*3600))
	i := sluice.InstantOf(at)
	if got, want := int64(i), at.UnixMicro(); got != want {
		t.Errorf("InstantOf = %d, want %d", got, want)
	}
	if got, want := i.Time(), at.Truncate(time.Microsecond).UTC(); got != want {
		t.Errorf("Time = %v, want %v", got, want)
	}
	if got := sluice.InstantOf(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)); got != 0 {
		t.Errorf("before 1970 = %d, want 0", got)
	}
	if got := sluice.InstantOf(time.Time{}); got != 0 {
		t.Errorf("the zero Time = %d, want 0", got)
	}
}

// TestSizes: requests and decisions are passed by value on every path, so they stay small.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(sluice.Request{}); n > 120 {
		t.Errorf("a Request has %d bytes, want at most 120", n)
	}
	if n := unsafe.Sizeof(sluice.Decision{}); n > 80 {
		t.Errorf("a Decision has %d bytes, want at most 80", n)
	}
}
