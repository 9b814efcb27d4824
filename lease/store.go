// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
)

// DefaultMaxKeys is the MaxKeys of Options that name none.
const DefaultMaxKeys = 1 << 16

// Options are the settings of a [Store]. With the zero value nothing is leased.
type Options struct {
	// Of says which plans are leased and how. It is asked once for each plan,
	// or a few times, and must answer the same every time. Nil leases none.
	Of func(*sluice.Plan) (sluice.LeaseTerms, bool)
	// MaxKeys is how many keys are kept track of at once, a few hundred bytes
	// each; takes of others are asked of the store one by one. Zero means
	// [DefaultMaxKeys], less than 64 means 64.
	MaxKeys int
	// Now is the clock: nil means the system's. Only differences are looked at,
	// and its times should carry a monotonic reading. It must be safe for
	// concurrent use.
	Now func() time.Time
}

// Store is a [sluice.Store] that takes units of keys in demand from the store
// behind it in advance. It is safe for concurrent use if that is. It starts no
// goroutine; call [Store.Return] before the process ends, or units in hand count
// until they are forgotten.
type Store struct {
	store sluice.Store
	of    func(*sluice.Plan) (sluice.LeaseTerms, bool)
	now   func() time.Time
	base  time.Time
	table table

	plans *sluice.Prepared[*terms] // nil of those that are not leased
}

var (
	_ sluice.Store     = (*Store)(nil)
	_ sluice.SlotStore = (*Store)(nil)
)

// Wrap returns a Store that asks store what it does not hold itself. It panics if store
// is nil.
func Wrap(store sluice.Store, opts Options) *Store {
	if store == nil {
		panic("lease: wrap: store is nil; make one, such as memstore.New(memstore.Options{})") //nolint:forbidigo // a mistake of the program's, and there is no error to return
	}
	s := &Store{store: store, of: opts.Of, now: opts.Now, plans: new(sluice.Prepared[*terms])}
	if s.now == nil {
		s.now = time.Now
	}
	s.base = s.now()
	keys := opts.MaxKeys
	if keys == 0 {
		keys = DefaultMaxKeys
	}
	s.table.init(keys)
	return s
}

func (s *Store) clock() moment {
	now := s.now()
	return moment{mono: int64(now.Sub(s.base)), wall: int64(now.Round(0).Sub(s.base.Round(0)))}
}

// terms returns how plan is leased, nil if it is not.
func (s *Store) terms(plan *sluice.Plan) (*terms, error) {
	if s.of == nil {
		return nil, nil
	}
	t, known := s.plans.Of(plan)
	if !known {
		if given, ok := s.of(plan); ok {
			t = derive(plan, given)
		}
		s.plans.Keep(plan, t)
	}
	if t != nil && t.err != nil {
		return nil, t.err
	}
	return t, nil
}

// job is a request made ready for the store.
type job struct {
	req   sluice.Request
	terms *terms   // of the first charge
	legs  []*terms // of all charges, nil where they are not leased
}

// ready gives req the stricter limits of leased plans.
func (s *Store) ready(req sluice.Request) (job, error) {
	if err := req.Validate(); err != nil {
		return job{}, err
	}
	t, err := s.terms(req.Plan)
	if err != nil {
		return job{}, err
	}
	j := job{req: req, terms: t}
	if t != nil {
		j.req.Plan = t.plan
	}
	if len(req.More) == 0 {
		return j, nil
	}
	j.legs = []*terms{t}
	j.req.More = make([]sluice.Charge, len(req.More))
	for i, c := range req.More {
		t, err := s.terms(c.Plan)
		if err != nil {
			return job{}, err
		}
		if t != nil {
			c.Plan = t.plan
		}
		j.req.More[i] = c
		j.legs = append(j.legs, t)
	}
	return j, nil
}

// leasable reports whether the job is one that a lease can answer.
func (j *job) leasable() bool {
	return j.terms != nil && j.req.Op == sluice.OpTake && len(j.req.More) == 0 && j.req.MaxWait == 0 && j.req.Slot == nil && j.req.Cost > 0 && j.req.Cost <= j.terms.full
}

// unsound forgets what was denied of the keys of a request that may give units
// back, and after a reset the units in hand too.
func (s *Store) unsound(j *job) {
	switch j.req.Op {
	case sluice.OpRefund, sluice.OpReset, sluice.OpCharge:
	default:
		return
	}
	forget := func(t *terms, key string) {
		if t == nil {
			return
		}
		n, sh := s.table.find(t, key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		e := sh.entries[n]
		if e == nil {
			return
		}
		e.unsound()
		if j.req.Op == sluice.OpReset {
			e.parcels, e.spare = nil, nil
			e.key = ""
		}
	}
	forget(j.terms, j.req.Key)
	for i := range j.req.More {
		forget(j.legs[i+1], j.req.More[i].Key)
	}
}

// Take decides req from units in hand, or from what is known to be denied, or by
// asking the store; concurrent takes of one key wait for one answer. The error is
// the store's, the context's, a [*sluice.RequestError], or says why the plan
// cannot be leased (see [Check]).
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	j, err := s.ready(req)
	if err != nil {
		return sluice.Decision{}, err
	}
	if j.leasable() {
		return s.leased(ctx, &j)
	}
	if d, ok := s.peek(&j); ok {
		return d, nil
	}
	s.unsound(&j)
	defer s.unsound(&j)
	return s.store.Take(ctx, j.req)
}

// peek answers an OpPeek for which there are units in hand.
func (s *Store) peek(j *job) (d sluice.Decision, ok bool) {
	if j.req.Op != sluice.OpPeek || j.terms == nil || len(j.req.More) > 0 || j.req.MaxWait > 0 || j.req.Slot != nil || j.req.Cost == 0 {
		return d, false
	}
	n, sh := s.table.find(j.terms, j.req.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[n]; e != nil {
		return e.peek(s.clock(), j.req.Cost, j.req.Outcomes.All())
	}
	return d, false
}

// Slot passes req on to the store, which must be a [sluice.SlotStore].
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.PassSlot(ctx, s.store, req)
}

// TakeBatch decides what it can from units in hand and asks the store about the
// rest in one batch. A request may be asked once more, alone, where it is denied
// only because more was asked for than it needs.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if len(out) != len(reqs) {
		return fmt.Errorf("lease: take batch: %d results for %d requests; pass as many", len(out), len(reqs))
	}
	b := batch{store: s}
	defer b.end()
	for i := range reqs {
		b.add(i, reqs[i], &out[i])
	}
	return b.run(ctx, out)
}
