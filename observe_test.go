// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

type passed struct{}

// TestObserve: each hook sees its calls before and after the store, and sets the store's
// context.
func TestObserve(t *testing.T) {
	var reported []string
	begin := func(ctx context.Context, what string) context.Context {
		reported = append(reported, what)
		return context.WithValue(ctx, passed{}, what)
	}
	inner := contextual{memstore.New(memstore.Options{}), &reported}
	store := sluice.Observe(inner, sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			return begin(ctx, req.Op.String()), func(d sluice.Decision, err error) { reported = append(reported, fmt.Sprint(d.Allowed, err)) }
		},
		Batch: func(ctx context.Context, reqs []sluice.Request) (context.Context, func([]sluice.Result, error)) {
			return begin(ctx, fmt.Sprint(len(reqs))), func(out []sluice.Result, err error) {
				reported = append(reported, fmt.Sprint(out[1].Decision.Allowed, err))
			}
		},
		Slot: func(ctx context.Context, _ *sluice.SlotRequest) (context.Context, func(sluice.SlotDecision, error)) {
			return begin(ctx, "slot"), func(d sluice.SlotDecision, err error) { reported = append(reported, fmt.Sprint(d.Held, err)) }
		},
	})
	lim := testkit.Limiter(t, store, "test", "2/h")
	must(t)(lim.Take(t.Context(), "k", 1))
	out := make([]sluice.Result, 2)
	if err := sluice.TakeBatch(t.Context(), store, []sluice.Request{{Charge: lim.Of("k", 1)}, {Charge: lim.Of("k", 1)}}, out); err != nil {
		t.Fatal(err)
	}
	slots, err := sluice.NewSlots(store, "jobs", sluice.SlotLimit{Cap: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slots.Acquire(t.Context(), "k", "o", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Take(t.Context(), sluice.Request{}); err == nil {
		t.Error("no error for a request without a plan")
	}
	want := []string{
		"take", "with take", "true <nil>", "2", "with 2", "false <nil>", "slot", "with slot", "1 <nil>",
		"take", "with take", "false sluice: request: Plan: is nil; make one with Compile",
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported\n %q, want\n %q", reported, want)
	}
}

// contextual is a store that reports the context of its calls.
type contextual struct {
	*memstore.Store
	reported *[]string
}

func (c contextual) with(ctx context.Context) {
	*c.reported = append(*c.reported, fmt.Sprint("with ", ctx.Value(passed{})))
}

func (c contextual) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	c.with(ctx)
	return c.Store.Take(ctx, req)
}

func (c contextual) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	c.with(ctx)
	return c.Store.TakeBatch(ctx, reqs, out)
}

func (c contextual) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	c.with(ctx)
	return c.Store.Slot(ctx, req)
}

// TestObserveIsWhatTheStoreIs: an observed store implements the interfaces of the store, and
// no others.
func TestObserveIsWhatTheStoreIs(t *testing.T) {
	all := memstore.New(memstore.Options{})
	for name, store := range map[string]sluice.Store{
		"all":     all,
		"none":    struct{ sluice.Store }{all},
		"slots":   struct{ sluice.SlotStore }{all},
		"explain": struct{ sluice.ExplainStore }{all},
	} {
		t.Run(name, func(t *testing.T) {
			got := sluice.Observe(sluice.Observe(store, sluice.Hooks{}), sluice.Hooks{})
			_, slots := store.(sluice.SlotStore)
			_, explains := store.(sluice.ExplainStore)
			s, slotted := got.(sluice.SlotStore)
			e, explaining := got.(sluice.ExplainStore)
			if slotted != slots || explaining != explains {
				t.Fatalf("keeps slots %v, explains %v; want %v, %v", slotted, explaining, slots, explains)
			}
			plan := testkit.Plan(t, "test", "100/h")
			req := testkit.Request(plan, "k", 1)
			if d := testkit.Take(t, got, req); !d.Allowed {
				t.Errorf("take: %+v", d)
			}
			out := make([]sluice.Result, 1)
			if err := got.(sluice.BatchStore).TakeBatch(t.Context(), []sluice.Request{req}, out); err != nil || out[0].Err != nil {
				t.Errorf("batch: %v, %+v", err, out)
			}
			slot := sluice.SlotRequest{Scope: "s", Limit: sluice.SlotLimit{Name: "n", Cap: 1, TTL: time.Minute}, Owner: "o", Cost: 1}
			if slots {
				if d, err := s.Slot(t.Context(), slot); err != nil || !d.Allowed {
					t.Errorf("slot: %+v, %v", d, err)
				}
			} else if _, err := sluice.NewSlots(got, "s", slot.Limit); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("slots of a store without: %v", err)
			}
			if explains {
				if x, err := e.Explain(t.Context(), req); err != nil || len(x.Limits) != 1 {
					t.Errorf("explain: %+v, %v", x, err)
				}
				if _, err := e.ExplainSlot(t.Context(), slot); err != nil {
					t.Errorf("explain slot: %v", err)
				}
			}
		})
	}
}

// TestObserveMayReturnNothing: a hook may return no function for the outcome.
func TestObserveMayReturnNothing(t *testing.T) {
	store := sluice.Observe(memstore.New(memstore.Options{}), sluice.Hooks{
		Take: func(ctx context.Context, _ *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			return ctx, nil
		},
		Batch: func(ctx context.Context, _ []sluice.Request) (context.Context, func([]sluice.Result, error)) {
			return ctx, nil
		},
		Slot: func(ctx context.Context, _ *sluice.SlotRequest) (context.Context, func(sluice.SlotDecision, error)) {
			return ctx, nil
		},
	})
	lim := testkit.Limiter(t, store, "test", "2/h")
	must(t)(lim.Take(t.Context(), "k", 1))
	if err := sluice.TakeBatch(t.Context(), store, []sluice.Request{{Charge: lim.Of("k", 1)}}, make([]sluice.Result, 1)); err != nil {
		t.Error(err)
	}
	slots, err := sluice.NewSlots(store, "jobs", sluice.SlotLimit{Cap: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slots.Peek(t.Context(), "k", 1); err != nil {
		t.Error(err)
	}
}
