// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// mostShards is how many parts of the keys have a lock of their own, and
// leastKeys how many keys are worth one.
const (
	mostShards = 64
	leastKeys  = 16
)

// asker is the store as near sees it. It need not validate.
type asker interface {
	ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error)
	askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error
}

// near is what a process knows of the keys of a store that is far away, so that
// it need not be asked: of each key one entry, which says until when it is
// denied, which units of it are in hand, and whether a call is on its way.
// See the package on denials and leases.
type near struct {
	by     asker
	lease  func(*sluice.Plan) (sluice.LeaseTerms, bool)
	clock  func() moment
	age    int64 // ns for which a denial is remembered
	keys   maphash.Seed
	scopes maphash.Seed // apart, or a key could be made to look as a scope
	plans  *compiled.Prepared[*facts]
	shards []shard // a power of two
}

// newNear returns a near that asks by what it does not know. It starts no
// goroutine; units in hand should be given back before the process ends.
func newNear(o Options, by asker) *near {
	n := &near{
		by: by, lease: o.Lease, clock: clockOf(o.Now), age: int64(o.MaxDenial),
		keys: maphash.MakeSeed(), scopes: maphash.MakeSeed(), plans: new(compiled.Prepared[*facts]),
	}
	if n.age == 0 || n.age > int64(bounds.MaxDenialAge) {
		n.age = int64(bounds.MaxDenialAge)
	}
	keys := cmp.Or(o.MaxKeys, bounds.DefaultNearKeys)
	keys = min(max(keys, 1), 1<<30)
	shards := 1
	for shards < mostShards && 2*shards*leastKeys <= keys {
		shards *= 2
	}
	n.shards = make([]shard, shards)
	for i := range n.shards {
		n.shards[i].most, n.shards[i].entries = keys/shards, make(map[uint64]*entry)
	}
	return n
}

// clockOf returns the clock that now reads, nil of the system's.
func clockOf(now func() time.Time) func() moment {
	if now == nil {
		now = time.Now
	}
	base := now()
	return func() moment {
		t := now()
		return moment{mono: int64(t.Sub(base)), wall: t.UnixNano()}
	}
}

// leg returns the leg of a charge, not yet sent. Its key is a hash under a secret
// of this process, so that no one can choose keys that meet: two of them meet by
// chance with odds of 1 in 2^64. Plans of one scope share it.
func (n *near) leg(op sluice.Op, f *facts, key string) leg {
	h := maphash.String(n.keys, key) ^ f.scope
	// The upper bits choose the shard, the lower ones its bucket.
	return leg{op: op, shard: &n.shards[h>>32&uint64(len(n.shards)-1)], key: h, facts: f}
}

// take decides req, which is valid: from units in hand, from what is known to be
// denied, or by asking the store. Where another take is about to learn the answer
// it waits for that, or until ctx ends. The error is the store's, a
// [*sluice.NotSentError] of a take that waited, or a [*sluice.RequestError] if a plan
// cannot be leased. An answer from memory allocates nothing.
func (n *near) take(ctx context.Context, req *sluice.Request) (d sluice.Decision, err error) {
	var f flight
	if err := n.ready(&f, req); err != nil {
		return d, err
	}
	for round := 0; ; round++ {
		done, wait := n.begin(&f, &d, round)
		switch {
		case done:
			return d, nil
		case wait == nil:
			return n.fly(ctx, &f)
		}
		select {
		case <-wait.back:
			err = wait.err
		case <-ctx.Done():
			err = &sluice.NotSentError{Err: ctx.Err()}
		}
		if err != nil {
			return d, err
		}
	}
}

// plain gives req the stricter limits of plans that are leased.
func (n *near) plain(req *sluice.Request) error {
	for i := range req.Charges() {
		f, err := n.of(req.Nth(i).Plan)
		if err != nil {
			return err
		}
		if f.plan != req.Nth(i).Plan {
			req.More = slices.Clone(req.More) // the caller's stay as they are
			req.Nth(i).Plan = f.plan
		}
	}
	return nil
}

// forget forgets what was denied of the keys of req, to which units may have been
// given back, and loses the units in hand if it is a reset.
func (n *near) forget(req *sluice.Request) {
	for i := range req.Charges() {
		c := req.Nth(i)
		f, _ := n.of(c.Plan)
		l := n.leg(req.Op, f, c.Key)
		l.shard.mu.Lock()
		if e := l.shard.entries[l.key]; e != nil {
			if e.forget(); req.Op == sluice.OpReset {
				e.drop()
			}
			l.shard.settle(e)
		}
		l.shard.mu.Unlock()
	}
}

// DenialStats is what was made of denials that were remembered.
type DenialStats struct {
	// Answered is how many requests were denied from memory, and Asked how many
	// others, but for peeks, went to the store: one for each key charged.
	Answered, Asked uint64
	// Remembered is how many denials were kept, Evicted how many of them made
	// room for others before their end.
	Remembered, Evicted uint64
}

// LeaseStats is what was made of plans that are leased.
type LeaseStats struct {
	// Allowed and Denied are the takes that were decided here, Asked the
	// questions to the store about takes that could be leased.
	Allowed, Denied, Asked uint64
	// Leased is how many units were taken in advance, Returned how many of
	// them were sent back unused, and Lost how many were neither used nor sent
	// back: their limit had come to an edge, their key was reset or had to make
	// room for others, or they could not be sent.
	Leased, Returned, Lost uint64
	// Untracked is how many takes found no room for their key and were asked
	// as they are.
	Untracked uint64
}

// stats returns what was done so far. It locks one part of the keys after the
// other, each for an instant.
func (n *near) stats() (denials DenialStats, leases LeaseStats) {
	for i := range n.shards {
		sh := &n.shards[i]
		sh.mu.Lock()
		denials.Answered += sh.denials.Answered
		denials.Asked += sh.denials.Asked
		denials.Remembered += sh.denials.Remembered
		denials.Evicted += sh.denials.Evicted
		leases.Allowed += sh.leases.Allowed
		leases.Denied += sh.leases.Denied
		leases.Asked += sh.leases.Asked
		leases.Leased += sh.leases.Leased
		leases.Returned += sh.leases.Returned
		leases.Lost += sh.leases.Lost
		leases.Untracked += sh.leases.Untracked
		sh.mu.Unlock()
	}
	return denials, leases
}
