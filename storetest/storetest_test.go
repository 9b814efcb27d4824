// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the suite's zones, on a machine without zone files

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/storetest"
)

// simple is a minimal store. Its fault selects a way in which it is wrong.
type simple struct {
	now   func() time.Time
	fault string

	mu     sync.Mutex
	states map[place][]algo.State
	rules  map[uint64]*rule
	slots  map[place]*algo.State
	owners map[string]uint64
	voids  map[place]int64 // by scope and key
	gate   sync.RWMutex    // held for writing while the store is stalled
	heldUp bool            // between two keys of a request
}

type place struct {
	series     uint64
	scope, key string
}

// rule is the state of a scope and name.
type rule struct {
	start  int64
	limits map[uint64]bool
}

func newSimple(now func() time.Time, fault string) *simple {
	return &simple{
		now: now, fault: fault,
		states: make(map[place][]algo.State), rules: make(map[uint64]*rule), slots: make(map[place]*algo.State), owners: make(map[string]uint64), voids: make(map[place]int64),
	}
}

func (s *simple) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := s.await(ctx, req); err != nil {
		return sluice.Decision{}, err
	}
	return s.decide(req)
}

func (s *simple) decide(req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil && s.fault != "validates nothing" {
		return sluice.Decision{}, err
	}
	if req.Hold != nil {
		return sluice.Decision{}, sluice.ErrNoHolds
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	if s.fault == "counts in ms" {
		now -= now % 1000
	}
	if s.fault == "forgets Slot" {
		req.Slot = nil
	}
	if req.Slot != nil && !s.slotIsFree(&req, now) {
		return algo.DenySlot(&req, now), nil
	}
	var items []algo.Item
	var places []place
	for _, c := range req.More {
		if c.Plan != nil && s.fault != "meets one charge after another" {
			for j := range c.Plan.Len() {
				s.meet(c.Plan.Term(j), now)
			}
		}
	}
	for i, c := range append([]sluice.Charge{req.Charge}, req.More...) {
		if c.Plan == nil || i > 0 && s.fault == "forgets More" {
			continue
		}
		for j := range c.Plan.Len() {
			term := c.Plan.Term(j)
			at := place{term.Series, c.Plan.Scope(), c.Key}
			switch s.fault {
			case "runs scope and key together":
				at = place{0, "", c.Plan.Scope() + c.Key + term.Name}
			case "cuts keys":
				at.key = at.key[:min(len(at.key), 1000)]
			}
			it := algo.Item{Term: term, Cost: c.Cost, Counted: c.Counted, Void: s.voids[place{0, c.Plan.Scope(), c.Key}]}
			s.load(at, &it, now)
			places, items = append(places, at), append(items, it)
		}
	}
	switch s.fault {
	case "forgets MaxWait":
		req.MaxWait = 0
	case "forgets Due":
		req.Due = 0
	case "peeks in earnest":
		if req.Op == sluice.OpPeek {
			req.Op = sluice.OpTake
		}
	}
	d := algo.Decide(&req, items, now)
	switch {
	case len(req.More) == 0:
	case s.fault == "decides keys at two instants":
		d.ResetAfter += time.Microsecond
	case s.fault == "is held up between two keys" && !s.heldUp:
		time.Sleep(heldUp)
		s.heldUp, d.ResetAfter = true, d.ResetAfter+time.Microsecond
	}
	if s.fault == "lets others in between" {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	if s.fault == "forgets outcomes" {
		clear(*req.Outcomes)
	}
	for i := range items {
		it := &items[i]
		if of := (place{0, places[i].scope, places[i].key}); s.fault != "forgets resets" {
			s.voids[of] = max(s.voids[of], it.Void)
		}
		switch {
		case req.Op == sluice.OpPeek || !it.Written:
		case !d.Allowed && s.fault == "keeps nothing of denials":
		default:
			if s.fault == "forgets Reserved" {
				it.State.Reserved = false
			}
			if s.fault == "counts in one form" {
				it.Others = nil
			}
			s.states[places[i]] = it.Keep(nil)
		}
	}
	if req.Slot != nil && (d.Allowed || s.fault == "acquires for denied units") {
		req.Slot.Decision = s.slot(req.Slot.SlotRequest, now)
	}
	return d, nil
}

// slotIsFree reports whether a slot is free. If not, it sets the slot's Decision.
func (s *simple) slotIsFree(req *sluice.Request, now int64) bool {
	look := req.Slot.SlotRequest
	if look.Op = sluice.SlotPeek; s.fault == "acquires at once" {
		look.Op = sluice.SlotAcquire
	}
	d := s.slot(look, now)
	if req.Slot.Decision = (sluice.SlotDecision{}); !d.Allowed {
		req.Slot.Decision = d
	}
	return d.Allowed || s.fault == "spends without a slot"
}

// meet records a limit and returns the state of its rule.
func (s *simple) meet(t *sluice.Term, now int64) *rule {
	r := s.rules[t.Series]
	if r == nil {
		r = &rule{start: max(now, 1), limits: make(map[uint64]bool)}
		s.rules[t.Series] = r
	}
	r.limits[t.ID] = true
	return r
}

// load gives an item the states at a place.
func (s *simple) load(at place, it *algo.Item, now int64) {
	r := s.meet(it.Term, now)
	if it.Start = r.start; s.fault != "starts with each key" && (it.Term.InitialDeficit > 0 || it.Term.PreFilled) {
		r.start = min(r.start, max(now, 1))
		it.Start = r.start
	}
	var live []algo.State
	for _, st := range s.states[at] {
		switch {
		case st.Idle <= now:
		case st.By.ID != it.Term.ID && s.fault == "forgets on change":
		default:
			st.Ring = slices.Clone(st.Ring)
			if s.fault == "ignores changes" {
				st.By = it.Term
			}
			live = append(live, st)
		}
	}
	if it.Pick(live); len(live) == 0 && s.fault == "starts with each key" {
		it.Start = max(now, 1)
	}
	if it.Term.Burst > 0 && it.State.Zero() && len(r.limits) > 1 {
		it.State.Since = now
	}
}

func (s *simple) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if len(out) != len(reqs) && s.fault != "takes any batch" {
		return &sluice.RequestError{Field: "out", Problem: "has another length"}
	}
	for i := range out {
		j := i
		if s.fault == "decides batches backwards" {
			j = len(out) - 1 - i
		}
		out[j].Decision, out[j].Err = s.Take(ctx, reqs[j])
	}
	return nil
}

func (s *simple) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if !s.passes(ctx) {
		return sluice.SlotDecision{}, &sluice.NotSentError{Err: ctx.Err()}
	}
	if err := req.Validate(); err != nil {
		return sluice.SlotDecision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slot(req, s.now().UnixMicro()), nil
}

func (s *simple) slot(req sluice.SlotRequest, now int64) sluice.SlotDecision {
	at := place{0, req.Scope + "|" + req.Limit.Name, req.Key}
	if s.slots[at] == nil || s.fault == "holds no slots" {
		s.slots[at] = &algo.State{}
	}
	if _, known := s.owners[req.Owner]; !known {
		s.owners[req.Owner] = uint64(len(s.owners))
	}
	d, _ := algo.DecideSlot(&req, s.owners[req.Owner], s.slots[at], now)
	return d
}

// stall keeps the store from answering.
func (s *simple) stall(*testing.T) (resume func()) {
	s.gate.Lock()
	return s.gate.Unlock
}

// passes waits while the store is stalled. It reports false if ctx ends before.
func (s *simple) passes(ctx context.Context) bool {
	for !s.gate.TryRLock() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			if s.fault != "ignores contexts" {
				return false
			}
		}
	}
	s.gate.RUnlock()
	return true
}

// await waits while the store is stalled. If ctx ends before, req continues without its
// caller.
func (s *simple) await(ctx context.Context, req sluice.Request) error {
	if s.passes(ctx) {
		return nil
	}
	if s.fault != "uses its caller's memory" {
		req.More, req.Outcomes = slices.Clone(req.More), nil
	}
	answered := make(chan sluice.Result, 1)
	go func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		var r sluice.Result
		r.Decision, r.Err = s.decide(req)
		answered <- r
	}()
	if s.fault == "says that it sent nothing" {
		return &sluice.NotSentError{Err: ctx.Err()}
	}
	if s.fault == "says nothing of what it sent" {
		return ctx.Err()
	}
	return sluice.NewMaybeSentError(ctx.Err(), func(undo bool, heard func(sluice.Late)) {
		go func() {
			l := sluice.Late{Result: <-answered}
			back, ok := req.Undo(l.Decision)
			l.Undone = undo && ok
			if s.fault == "undoes what is kept" || l.Undone && s.fault != "undoes nothing" {
				_, _ = s.decide(back)
			}
			heard(l)
			if s.fault == "notifies it twice" {
				heard(l)
			}
		}()
	})
}

const faultVar = "STORETEST_FAULT"

func TestSimple(t *testing.T) {
	fault := os.Getenv(faultVar)
	storetest.Test(t, func(_ *testing.T, now func() time.Time) storetest.Harness {
		s := newSimple(now, fault)
		return storetest.Harness{Store: s, Slots: s, Stall: s.stall, Steps: testkit.Steps(400, 12_000), Together: time.Minute}
	})
}

// TestOwnClock runs the suite on a store that uses the machine's clock.
func TestOwnClock(t *testing.T) {
	storetest.Test(t, func(_ *testing.T, _ func() time.Time) storetest.Harness {
		s := newSimple(time.Now, "")
		return storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: testkit.Steps(300, 3_000)}
	})
}

const heldUp = 2 * time.Millisecond

// TestHeldUp runs the suite on a store that is held up between the keys of a request for
// longer than its Together.
func TestHeldUp(t *testing.T) {
	storetest.Test(t, func(_ *testing.T, _ func() time.Time) storetest.Harness {
		s := newSimple(time.Now, "is held up between two keys")
		return storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: 300, Together: heldUp}
	})
}

// TestFindsFaults runs the suite on faulty stores, each in a process of its own; the suite
// must fail.
func TestFindsFaults(t *testing.T) {
	known := map[string]bool{}
	for _, c := range []struct{ fault, want string }{
		{"validates nothing", "TestSimple/Refused"},
		{"counts in ms", "TestSimple/Requests"},
		{"counts in ms", "TestSimple/Platforms"},
		{"forgets More", "TestSimple/Requests"},
		{"decides keys at two instants", "TestSimple/Requests"},
		{"decides keys at two instants", "TestSimple/Batches"},
		{"runs scope and key together", "TestSimple/Keys"},
		{"cuts keys", "TestSimple/Keys"},
		{"ignores changes", "TestSimple/ChangedLimits"},
		{"forgets on change", "TestSimple/ChangedLimits"},
		{"counts in one form", "TestSimple/ChangedLimits"},
		{"forgets resets", "TestSimple/Requests"},
		{"meets one charge after another", "TestSimple/ChangedWithin"},
		{"starts with each key", "TestSimple/Requests"},
		{"forgets MaxWait", "TestSimple/Requests"},
		{"forgets Due", "TestSimple/Requests"},
		{"forgets outcomes", "TestSimple/Batches"},
		{"peeks in earnest", "TestSimple/Requests"},
		{"keeps nothing of denials", "TestSimple/Requests"},
		{"forgets Reserved", "TestSimple/Batches"},
		{"takes any batch", "TestSimple/Refused"},
		{"decides batches backwards", "TestSimple/Batches"},
		{"decides batches backwards", "TestSimple/ChangedBatches"},
		{"holds no slots", "TestSimple/SlotsConcurrent"},
		{"lets others in between", "TestSimple/Concurrent"},
		{"forgets Slot", "TestSimple/TakesWithSlots"},
		{"forgets Slot", "TestSimple/TakesWithSlotsConcurrent"},
		{"acquires for denied units", "TestSimple/TakesWithSlots"},
		{"acquires at once", "TestSimple/TakesWithSlots"},
		{"spends without a slot", "TestSimple/TakesWithSlots"},
		{"ignores contexts", "TestSimple/Contexts"},
		{"uses its caller's memory", "TestSimple/Contexts"},
		{"says that it sent nothing", "TestSimple/Contexts"},
		{"says nothing of what it sent", "TestSimple/Contexts"},
		{"undoes what is kept", "TestSimple/Contexts"},
		{"undoes nothing", "TestSimple/Contexts"},
		{"notifies it twice", "TestSimple/Contexts"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			if known[c.want] { // one fault is enough to test a part of the suite
				testkit.Long(t)
			}
			known[c.want] = true
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimple$/^"+strings.TrimPrefix(c.want, "TestSimple/")+"$")
			cmd.Env = append(os.Environ(), faultVar+"="+c.fault)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("the suite ended with %v, want a failure of %s:\n%s", err, c.want, out)
			}
		})
	}
}
