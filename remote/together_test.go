// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// together returns a request for units of a plan and a slot for an owner.
func together(p *sluice.Plan, cost int64, owner string) sluice.Request {
	req := testkit.Request(p, "k", cost)
	req.Slot = &sluice.Slot{SlotRequest: slot(sluice.SlotAcquire, owner)}
	return req
}

// apart has a policy for units and another for slots.
func apart(units, slots sluice.Failure) remote.Options {
	return remote.Options{Policy: units, SlotPolicyOf: func(string) sluice.Failure { return slots }}
}

// TestSlotAndUnits: a request for both that the store does not decide passes if the policy of
// the units and that of the slot let it. There are two slots, and units for three.
func TestSlotAndUnits(t *testing.T) {
	const o, l, c = sluice.FailOpen, sluice.FailLocal, sluice.FailClosed
	for _, k := range []struct {
		units, slots sluice.Failure
		owners       int // that pass, of 5 that ask for a unit each
		refused      bool
	}{
		{o, o, 5, false},
		{o, l, 2, false},
		{l, o, 3, false},
		{l, l, 2, false},
		{o, c, 0, true},
		{l, c, 0, true},
		{c, o, 0, true},
		{c, l, 0, true},
		{c, c, 0, true},
	} {
		for _, wrong := range []fault{erring, unsent, lost, hung} {
			t.Run(fmt.Sprintf("units %v, slots %v, %s", k.units, k.slots, wrong), func(t *testing.T) {
				both(t, func(t *testing.T, f *faulty) {
					s := wrap(t, f, apart(k.units, k.slots))
					defer end(t, f, s)
					f.set(wrong)
					p := testkit.Plan(t, "api", "3/h sliding-log")
					given := 0
					for i := range 5 {
						req := together(p, 1, fmt.Sprint("o", i))
						d, err := s.Take(t.Context(), req)
						if _, refused := errors.AsType[*remote.UnavailableError](err); refused != k.refused || err != nil && !refused {
							t.Fatalf("owner %d: %+v, %v", i, d, err)
						}
						if d.Allowed {
							given++
						}
						switch held := req.Slot.Decision; {
						case err != nil:
						case !d.Degraded || d.Allowed && (!held.Allowed || !held.Degraded):
							t.Errorf("owner %d: %+v with slot %+v", i, d, held)
						case !d.Allowed && k.slots == l && (held.RetryAfter == 0 || d.RetryAfter != held.RetryAfter):
							t.Errorf("owner %d: %+v does not say that its slot was denied", i, held)
						}
					}
					if given != k.owners {
						t.Errorf("%d owners let through, want %d", given, k.owners)
					}
					st := s.Stats()
					if sum := st.Opened + st.DecidedLocally + st.Refused; sum != 5 {
						t.Errorf("%+v: want 5 degraded decisions", st)
					}
					mend(t, f, s)
					for i := range 5 {
						ask(t, s, sluice.SlotRelease, fmt.Sprint("o", i))
					}
					settled(t, s)
					if n := held(t, f); n != 0 {
						t.Errorf("the store holds %d slots in the end", n)
					}
				})
			})
		}
	}
}

// TestSlotAndUnitsLate: a late grant counts if the request passed; otherwise its units and its
// slot are given back.
func TestSlotAndUnitsLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   remote.Options
		leaves bool // the caller, before the deadline
		want   int64
	}{
		{"let through", apart(sluice.FailOpen, sluice.FailOpen), false, 1},
		{"refused for the units", apart(sluice.FailClosed, sluice.FailOpen), false, 0},
		{"refused for the slot", apart(sluice.FailOpen, sluice.FailClosed), false, 0},
		{"cancelled", apart(sluice.FailOpen, sluice.FailOpen), true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, c.opts)
				defer end(t, f, s)
				f.set(slow)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.leaves {
					time.AfterFunc(bounds.DefaultTimeout/2, leave)
				}
				p := testkit.Plan(t, "api", "3/h sliding-log")
				d, err := s.Take(ctx, together(p, 1, "ann"))
				if d.Allowed != (c.want > 0) || errors.Is(err, context.Canceled) != c.leaves {
					t.Fatalf("%+v, %v", d, err)
				}
				f.set(none)
				time.Sleep(2 * slowness)
				settled(t, s)
				if units, slots := testkit.Spent(t, f.Store, p, "k"), held(t, f); units != c.want || slots != c.want {
					t.Errorf("the store counts %d units and %d slots, want %d; %+v", units, slots, c.want, s.Stats())
				}
			})
		})
	}
}

// TestSlotAndUnitsDecided: the store's answers are passed on, and a store without slots is an
// error.
func TestSlotAndUnitsDecided(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "9/h")
		for i, want := range []bool{true, true, false} {
			req := together(p, 2, fmt.Sprint("o", i))
			if d := testkit.Take(t, s, req); d.Allowed != want || d.Degraded || req.Slot.Decision.Allowed != want {
				t.Errorf("owner %d: %+v with slot %+v", i, d, req.Slot.Decision)
			}
		}
		if got := testkit.Spent(t, f.Store, p, "k"); got != 4 {
			t.Errorf("%d units spent, want 4", got)
		}
		none := wrap(t, plainStore{f}, remote.Options{})
		if _, err := none.Take(t.Context(), together(p, 1, "ann")); !errors.Is(err, sluice.ErrNoSlots) {
			t.Errorf("a store without slots: %v", err)
		}
	})
}
