// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/sluicegate/sluice"
)

// MaxAge is how long a denial is remembered at most.
const MaxAge = time.Second

// DefaultMaxKeys is the MaxKeys of Options that name none.
const DefaultMaxKeys = 1 << 16

// Options are the settings of a [Store]. The zero value is ready to use.
type Options struct {
	// MaxKeys is how many denials are remembered at once, rounded up to a power
	// of two: each takes 80 bytes, when it is first needed. Zero means
	// [DefaultMaxKeys], a negative number the least there can be. Where there is
	// no room the denial that ends soonest is forgotten: then the store is
	// asked once more.
	MaxKeys int
	// MaxAge shortens how long a denial is remembered. Zero, and what is more
	// than the constant, means [MaxAge].
	MaxAge time.Duration
	// Now is the clock: nil means the system's. Only differences are looked at,
	// and its times should carry a monotonic reading. It must be safe for
	// concurrent use.
	Now func() time.Time
}

// Store is a [sluice.Store] that answers from memory what the store behind it
// is known to deny. It is safe for concurrent use if that is. It starts no
// goroutine and needs no closing.
type Store struct {
	store   sluice.Store
	now     func() time.Time
	base    time.Time
	age     int64 // ns
	seed    maphash.Seed
	stripes []stripe // a power of two
}

var (
	_ sluice.Store     = (*Store)(nil)
	_ sluice.SlotStore = (*Store)(nil)
)

// Wrap returns a Store that asks store what it does not know. It panics if store
// is nil.
func Wrap(store sluice.Store, opts Options) *Store {
	if store == nil {
		panic("denycache: wrap: store is nil; make one, such as memstore.New(memstore.Options{})") //nolint:forbidigo // a mistake of the program's, and there is no error to return
	}
	keys := opts.MaxKeys
	switch {
	case keys == 0:
		keys = DefaultMaxKeys
	case keys < 0:
		keys = 1
	}
	now := opts.Now
	if now == nil {
		now = time.Now
	}
	age := opts.MaxAge
	if age <= 0 || age > MaxAge {
		age = MaxAge
	}
	s := &Store{
		store: store, now: now, base: now(), age: int64(age), seed: maphash.MakeSeed(),
	}
	const most = 256 // stripes
	slots := ways
	for slots < min(keys, 1<<30) {
		slots *= 2
	}
	s.stripes = make([]stripe, min(slots/ways, most))
	for i := range s.stripes {
		s.stripes[i].init(slots / len(s.stripes))
	}
	return s
}

// clock returns the ns since the Store was made.
func (s *Store) clock() int64 { return int64(s.now().Sub(s.base)) }

// Take answers req from memory, without blocking or allocating, or else by
// asking the store. Where another take has begun to ask what comes after a denial
// that has ended, it waits for what that one learns, or until ctx ends, and asks
// only if that does not answer it. The error is the store's, ctx's, or a
// [*sluice.RequestError].
func (s *Store) Take(ctx context.Context, req sluice.Request) (d sluice.Decision, err error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	if req.Op == sluice.OpPeek {
		return s.store.Take(ctx, req)
	}
	var c call
	known, wait := s.enter(&c, &req, &d, true)
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return sluice.Decision{}, fmt.Errorf("denycache: take: %w", ctx.Err())
		}
		known, _ = s.enter(&c, &req, &d, false)
	}
	if known {
		return d, nil
	}
	defer func() { s.leave(&c, &d, err) }()
	return s.store.Take(ctx, req)
}

// Slot passes req on to the store, which must be a [sluice.SlotStore].
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.PassSlot(ctx, s.store, req)
}

// TakeBatch answers from memory what it can, in order, and asks the store about
// the rest in one batch; if there is no rest, not at all. It allocates if it
// asks about less than all.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) (err error) {
	if len(out) != len(reqs) {
		return fmt.Errorf("denycache: take batch: %d results for %d requests; pass as many", len(out), len(reqs))
	}
	b := batch{calls: make([]call, 0, len(reqs)), asked: reqs, results: out}
	defer func() { b.leave(s, err) }()
	for i := range reqs {
		b.enter(s, i, &reqs[i], &out[i])
	}
	switch len(b.calls) {
	case 0:
		return nil
	case len(reqs):
		return sluice.TakeBatch(ctx, s.store, reqs, out)
	}
	b.asked, b.results = make([]sluice.Request, len(b.calls)), make([]sluice.Result, len(b.calls))
	for i, c := range b.calls {
		b.asked[i] = reqs[c.index]
	}
	if err := sluice.TakeBatch(ctx, s.store, b.asked, b.results); err != nil {
		return err
	}
	for i, c := range b.calls {
		out[c.index] = b.results[i]
	}
	return nil
}

// batch is the part of a batch that the store is asked about.
type batch struct {
	calls   []call
	asked   []sluice.Request
	results []sluice.Result
}

func (b *batch) enter(s *Store, i int, req *sluice.Request, out *sluice.Result) {
	c := call{index: i}
	*out = sluice.Result{}
	if req.Validate() == nil && req.Op != sluice.OpPeek {
		if known, _ := s.enter(&c, req, &out.Decision, false); known {
			return
		}
	}
	b.calls = append(b.calls, c)
}

func (b *batch) leave(s *Store, err error) {
	for i := range b.calls {
		result := sluice.Result{Err: err}
		if err == nil {
			result = b.results[i]
		}
		s.leave(&b.calls[i], &result.Decision, result.Err)
	}
}

// Stats is what a [Store] has done.
type Stats struct {
	// Answered is how many requests were denied from memory, and Asked how many
	// others, but for peeks, went to the store: one for each key charged.
	Answered, Asked uint64
	// Remembered is how many denials were kept, Evicted how many of them made
	// room for others before their end.
	Remembered, Evicted uint64
}

// Stats returns what the Store has done. It locks one part of it after the
// other, each for an instant.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		sum.Answered += st.stats.Answered
		sum.Asked += st.stats.Asked
		sum.Remembered += st.stats.Remembered
		sum.Evicted += st.stats.Evicted
		st.mu.Unlock()
	}
	return sum
}
