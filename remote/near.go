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

// mostShards is the largest number of shards, each with a lock, and leastKeys the smallest
// number of keys in a shard.
const (
	mostShards = 64
	leastKeys  = 16
)

// asker is the store behind near. It need not validate. Its contexts are those of bound.
type asker interface {
	bound(ctx context.Context) context.Context
	ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error)
	askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error
}

// near holds the state of keys that a process keeps for a store far away, and decides by it
// where it can. Each key has an entry: the end of its denial, the units in hand, and the calls
// in flight. See the package comment on denials and leases.
type near struct {
	store  asker
	lease  func(*sluice.Plan) (sluice.LeaseTerms, bool)
	clock  func() moment
	age    int64 // ns for which a denial is remembered
	keys   maphash.Seed
	scopes maphash.Seed // with a seed of its own, so that no key has the hash of a scope by choice
	plans  *compiled.Prepared[*planInfo]
	shards []shard // a power of two
}

// newNear returns a near that asks store when it cannot decide. It starts no goroutine. Units
// in hand should be given back before the process ends.
func newNear(o Options, store asker) *near {
	n := &near{
		store: store, lease: o.Lease, clock: clockOf(o.Now), age: int64(o.MaxDenial),
		keys: maphash.MakeSeed(), scopes: maphash.MakeSeed(), plans: new(compiled.Prepared[*planInfo]),
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

// clockOf returns a clock that reads now, or the system's clock if now is nil.
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

// charge returns a charge that is not yet sent. Its key is a hash under a secret of this
// process, so that nobody can choose keys that collide; two keys collide by chance with
// odds of 1 in 2^64. All plans of a scope have the same key.
func (n *near) charge(op sluice.Op, pi *planInfo, key string) sentCharge {
	h := maphash.String(n.keys, key) ^ pi.scope
	// The upper bits choose the shard, the lower ones its bucket.
	return sentCharge{op: op, shard: &n.shards[h>>32&uint64(len(n.shards)-1)], key: h, info: pi}
}

// take decides req, which is valid: from units in hand, from a remembered denial, or by asking
// the store. If another take is about to learn the answer, it waits for that answer until ctx
// ends. The error is the store's, a [*sluice.NotSentError] of a take that waited, or a
// [*sluice.RequestError] if a plan cannot be leased. An answer from memory
// allocates nothing.
func (n *near) take(ctx context.Context, req *sluice.Request) (d sluice.Decision, err error) {
	var c nearCall
	if err := n.prepare(&c, req); err != nil {
		return d, err
	}
	for round := 0; ; round++ {
		done, wait := n.begin(&c, &d, round)
		switch {
		case done:
			return d, nil
		case wait == nil:
			return n.send(ctx, &c)
		}
		select {
		case <-wait.done:
			err = wait.err
		case <-ctx.Done():
			err = &sluice.NotSentError{Err: ctx.Err()}
		}
		if err != nil {
			return d, err
		}
	}
}

// useLeasedPlans replaces the plans of req that are leased by their stricter forms.
func (n *near) useLeasedPlans(req *sluice.Request) error {
	for i := range req.Charges() {
		pi, err := n.infoOf(req.Nth(i).Plan)
		if err != nil {
			return err
		}
		if pi.plan != req.Nth(i).Plan {
			req.More = slices.Clone(req.More) // the caller's slice stays as it is
			req.Nth(i).Plan = pi.plan
		}
	}
	return nil
}

// forget forgets the denials of the keys of req, as a refund may have ended them. If req
// is a reset, it also drops the units in hand.
func (n *near) forget(req *sluice.Request) {
	for i := range req.Charges() {
		c := req.Nth(i)
		pi, _ := n.infoOf(c.Plan)
		l := n.charge(req.Op, pi, c.Key)
		l.shard.mu.Lock()
		if e := l.shard.entries[l.key]; e != nil {
			if e.forgetDenials(); req.Op == sluice.OpReset {
				e.dropUnits()
			}
			l.shard.settle(e)
		}
		l.shard.mu.Unlock()
	}
}

// denialStats counts remembered denials.
type denialStats struct {
	// Answered counts the requests that were denied from memory. Asked counts those
	// that went to the store, except peeks: one for each key charged.
	Answered, Asked uint64
	// Remembered counts the denials that were kept, Evicted those that made room for others
	// before their end.
	Remembered, Evicted uint64
}

// LeaseStats counts the takes and units of leased plans.
type LeaseStats struct {
	// Allowed and Denied count the takes that were decided in this process, Asked the calls to
	// the store for leasable takes.
	Allowed, Denied, Asked uint64
	// Leased counts the units taken in advance, Returned those sent back unused, and Lost
	// those neither used nor sent back: because their window had ended, their key was reset or
	// made room for others, or the call failed.
	Leased, Returned, Lost uint64
	// Untracked counts the takes for whose key there was no room, so that they went to the
	// store without a lease.
	Untracked uint64
}

// stats returns the counts so far. It locks one shard after the other, each for an
// instant.
func (n *near) stats() (denials denialStats, leases LeaseStats) {
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
