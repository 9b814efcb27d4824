// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// patience is how long a store may take to return at once.
const patience = 10 * time.Second

// leaver calls a store in one way, and may leave before there is an answer.
type leaver struct {
	name string
	// ask calls the store, and returns the error of each request. Before it returns, it
	// overwrites the memory that it passed to the store.
	ask func(context.Context) []error
	// each is how many units each request asks for.
	each int64
	// spent returns how many units are spent.
	spent func() int64
}

// leavers returns the ways to call h, each with keys of its own.
func leavers(t *testing.T, h Harness) []leaver {
	t.Helper()
	list := []leaver{leavingTake(t, h)}
	if store, ok := h.Store.(sluice.BatchStore); ok {
		list = append(list, leavingBatch(t, h, store))
	}
	if h.Slots != nil {
		list = append(list, leavingSlot(t, h.Slots))
	}
	return list
}

func leavingTake(t *testing.T, h Harness) leaver {
	t.Helper()
	plan := testkit.Plan(t, "leaving", "1000/365d fixed-window anchor first")
	return leaver{
		name: "take", each: 5, spent: spender(t, h.Store, plan, "a", "b"),
		ask: func(ctx context.Context) []error {
			outcomes := make(sluice.Outcomes, 2)
			more := []sluice.Charge{{Plan: plan, Key: "b", Cost: 2}}
			_, err := h.Store.Take(ctx, sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "a", Cost: 3}, More: more, Outcomes: &outcomes})
			more[0].Cost, outcomes[0].Spent = 500, 500
			return []error{err}
		},
	}
}

func leavingBatch(t *testing.T, h Harness, store sluice.BatchStore) leaver {
	t.Helper()
	plan := testkit.Plan(t, "leaving in a batch", "1000/365d fixed-window anchor first")
	return leaver{
		name: "batch", each: 3, spent: spender(t, h.Store, plan, "a", "b"),
		ask: func(ctx context.Context) []error {
			reqs, out := make([]sluice.Request, 4), make([]sluice.Result, 4)
			for i := range reqs {
				reqs[i] = sluice.Request{Charge: sluice.Charge{Plan: plan, Key: []string{"a", "b"}[i%2], Cost: 3}, Outcomes: new(make(sluice.Outcomes, 1))}
			}
			err := store.TakeBatch(ctx, reqs, out)
			errs := make([]error, len(reqs))
			for i := range reqs {
				errs[i] = errors.Join(err, out[i].Err)
				reqs[i].Cost, (*reqs[i].Outcomes)[0].Spent = 500, 500
			}
			return errs
		},
	}
}

func leavingSlot(t *testing.T, slots sluice.SlotStore) leaver {
	t.Helper()
	req := sluice.SlotRequest{Scope: "leaving", Limit: sluice.SlotLimit{Name: "slots", Cap: 1000, TTL: time.Hour}, Key: "k", Owner: "o", Cost: 3}
	return leaver{
		name: "slot", each: 3,
		ask: func(ctx context.Context) []error {
			_, err := slots.Slot(ctx, req)
			return []error{err}
		},
		spent: func() int64 {
			peek := req
			peek.Op, peek.Owner, peek.Cost = sluice.SlotPeek, "", 1
			d, err := slots.Slot(t.Context(), peek)
			if err != nil {
				t.Error(err)
			}
			return d.Held
		},
	}
}

// spender returns a function that counts the units that keys have spent.
func spender(t *testing.T, store sluice.Store, plan *sluice.Plan, keys ...string) func() int64 {
	t.Helper()
	return func() (n int64) {
		for _, key := range keys {
			n += testkit.Spent(t, store, plan, key)
		}
		return n
	}
}

// asked calls the store with a context and returns the errors. It fails the test if the store
// does not return when the context has ended.
func (l *leaver) asked(ctx context.Context, t *testing.T) []error {
	t.Helper()
	done := make(chan []error, 1)
	go func() { done <- l.ask(ctx) }()
	<-ctx.Done()
	select {
	case errs := <-done:
		return errs
	case <-time.After(patience):
		t.Fatalf("%s: does not return though its context has ended", l.name)
		return nil
	}
}

// testContextEnded calls the store with a context that has already ended.
func testContextEnded(t *testing.T, b *bench) {
	h, _ := b.store(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, l := range leavers(t, h) {
		want := int64(0)
		for _, err := range l.asked(ctx, t) {
			_, unsent := errors.AsType[*sluice.NotSentError](err)
			switch {
			case err == nil:
				want += l.each
			case !unsent:
				want = -1
			}
		}
		if got := l.spent(); want >= 0 && got != want {
			t.Errorf("%s: got %d units spent, want %d", l.name, got, want)
		}
	}
}

// testContexts has callers leave while the store does not answer, and then keep or undo the
// units of their requests.
func testContexts(t *testing.T, b *bench) {
	for _, word := range []string{"undo", "keep", "undo once it is spent"} {
		ok := t.Run(word, func(t *testing.T) {
			h, _ := b.store(t)
			if h.Stall == nil {
				t.Skip("the store answers at once, or cannot be kept from it")
			}
			for _, l := range leavers(t, h) {
				resume := sync.OnceFunc(h.Stall(t))
				t.Cleanup(resume)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				errs := l.asked(ctx, t)
				cancel()
				want := classify(t, &l, errs)
				switch word {
				case "undo":
					want.say(true, resume)
				case "keep":
					want.say(false, resume)
				default:
					resume()
					await(func() bool { return l.spent() == want.most })
					want.say(true, func() {})
				}
				want.check(t)
			}
		})
		if !ok {
			return // the next one would wait as long
		}
	}
}

// await blocks until is returns true, or patience is over.
func await(is func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is() && time.Now().Before(end); <-tick.C {
	}
}

// verdict holds the outcomes of requests whose caller has left.
type verdict struct {
	*leaver
	maybe []*sluice.MaybeSentError
	most  int64 // units that they may spend
	undo  bool
	// unsent says that some requests were not sent, for which nothing may be spent.
	unsent bool

	mu    sync.Mutex
	heard []sluice.Late
	calls atomic.Int64
}

// classify sorts the errors of requests whose caller has left.
func classify(t *testing.T, l *leaver, errs []error) *verdict {
	t.Helper()
	v := &verdict{leaver: l}
	for _, err := range errs {
		maybe, sent := errors.AsType[*sluice.MaybeSentError](err)
		_, unsent := errors.AsType[*sluice.NotSentError](err)
		switch {
		case sent == unsent:
			t.Fatalf("%s: got %v, want a *NotSentError or a *MaybeSentError", l.name, err)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%s: got %v, want it to wrap %v", l.name, err, context.DeadlineExceeded)
		case sent:
			v.maybe, v.most = append(v.maybe, maybe), v.most+l.each
		default:
			v.unsent = true
		}
	}
	return v
}

// say has the store keep or undo the units, and then calls then, which makes it answer.
func (v *verdict) say(undo bool, then func()) {
	v.undo = undo
	hear := func(l sluice.Late) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.heard = append(v.heard, l)
		v.calls.Add(1)
	}
	for _, m := range v.maybe {
		if undo {
			m.Undo(hear)
		} else {
			m.Keep(hear)
		}
	}
	then()
}

// check waits for all late answers and compares them with the spent units.
func (v *verdict) check(t *testing.T) {
	t.Helper()
	await(func() bool { return int(v.calls.Load()) >= len(v.maybe) })
	if v.unsent {
		<-time.After(100 * time.Millisecond) // a request that is sent after all would be sent by then
	}
	least, most := int64(0), int64(0)
	v.mu.Lock()
	for _, l := range v.heard {
		switch {
		case l.Err != nil:
			most += v.each
		case l.Undone != v.undo:
			t.Errorf("%s: heard %+v, want its units undone %t", v.name, l, v.undo)
		case !v.undo:
			least, most = least+v.each, most+v.each
		}
	}
	v.mu.Unlock()
	if got := v.spent(); got < least || got > most {
		t.Errorf("%s: got %d units spent, want %d to %d", v.name, got, least, most)
	}
	if got := int(v.calls.Load()); got != len(v.maybe) {
		t.Errorf("%s: heard of %d requests, want of each of %d once", v.name, got, len(v.maybe))
	}
}
