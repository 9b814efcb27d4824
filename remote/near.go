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
)

// DefaultMaxKeys is how many keys are remembered where no number is named.
const DefaultMaxKeys = 1 << 16

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
//
// # Denials
//
// A denial says for how long the same cost will not fit if nothing else comes,
// and whatever else is taken can only make that longer. So until then the
// answer is known. Of each key the smallest cost that was denied is remembered
// and until when, counted on the monotonic clock from before the request was
// sent, and for [MaxAge] at most. A client that keeps pressing a key far over its
// limit then costs the store next to nothing.
//
// Once the denial of a pressed key has ended, one take asks the store. The others
// wait for what it learns, as long as that call takes and never twice: mostly the
// one unit that has come back is gone with it, and they are denied.
//
// Plain takes are answered: [sluice.OpTake] with one charge and no MaxWait, under
// one limit or several. That is off where a denial changes something: under a
// limit that counts denied requests, or one whose keys start with less than
// full. Requests that ask for the outcomes of several limits are sent on, unless
// their plan is leased: of the limits that had room at the denial, only the store
// knows what has been spent since, by other plans of the scope or other
// processes. A caller may act on that: a policy charges a grace limit where only
// the soft one denied.
//
// A request is denied here only if the store would deny it at that instant.
// Whatever could give units back through this process (a refund, a reset, a
// charge, a take under a changed limit) forgets the key before it is sent, and
// nothing is remembered about the key until it has come back. What is given
// back elsewhere is seen after [MaxAge] at the latest; so is a jump of the
// store's clock, a state that the store lost, and a refund that fails here but
// reaches the store later.
//
// Of the plans of a scope each that is leased has its own memory, and the others
// share one. Those that only have a limit in common, such as a soft and a grace
// limit beside one hard limit, do not make the process forget each other's.
//
// RetryAfter, ResetAfter and the instants are counted down, as the store's own
// would be. Costs above the one remembered are answered only where the answer
// follows exactly: under one token or leaky bucket whose units last whole
// microseconds, and under one fixed window. Remaining is exact for these, unless
// the cost takes the whole bucket or the limit has just been changed, and for a
// cost of 1; else it is what it was at the denial, and the store may have more by
// now.
//
// # Leases
//
// Of a key in high demand a node takes several units at once and spends them
// itself, for a short time. However many nodes do so, whatever of theirs is
// lost, late or dead, the limit is never exceeded.
//
// A lease is an ordinary take of several units; what makes it safe is the limit
// that the store is given. Units that are granted at g may be used until g+TTL, so
// whatever is used within some span was granted within that span or less than
// TTL before. Each limit of a leased plan is therefore replaced by one whose
// promise for the longer span is the original's for the shorter:
//
//   - a sliding log or histogram has a window longer by TTL, so that units
//     count until TTL + Window after they were granted;
//   - a token bucket, or a leaky bucket that holds nothing back, has a burst
//     smaller by what it refills in a TTL;
//   - a fixed window, a sliding counter and a bucket refilled by interval stay
//     as they are: between two edges it makes no difference when a unit is
//     used, so a lease ends at the next edge.
//
// The original bound, as package algo states it, then holds for the uses in
// every span, and a store needs to know nothing of leases. What it costs is
// algo.LeaseCost. Limits that cannot be leased, and why, are named by
// [sluice.Plan.Lease].
//
// A node counts the TTL on its own clock from before it sent its request, and
// ends it early by a part in [Drift], so clocks need not agree, only run at
// about the same rate. A process that is stopped between a decision and what it
// decides on acts late, as it does under any limiter.
//
// All processes that share a scope must lease it under the same TTL, or those
// that disagree change the limit with every request: the store then carries
// what is counted over from one to the other each time, which denies more. A
// unit leased under the one and used after a quiet Window under the other can
// be missed: while a fleet changes over, the units out on lease may come on top.
//
// Plain takes of one key and a cost are leased, singly or in batches. Everything
// else is asked of the store, under the same stricter limits; so is a take that
// acquires a slot. A reset makes the store forget units that are out on lease:
// other nodes may use theirs on top, for a TTL.
//
// A node that finds a key empty reserves its next units, and denies until their
// turn has come: nodes are served in their order and do not ask in vain. Until
// then who asks the store for the key otherwise finds nothing left. Those who
// wait for units that another has asked for are told if that fails.
type near struct {
	by     asker
	lease  func(*sluice.Plan) (sluice.LeaseTerms, bool)
	clock  func() moment
	age    int64 // ns for which a denial is remembered
	keys   maphash.Seed
	scopes maphash.Seed // apart, or a key could be made to look as a scope
	plans  *sluice.Prepared[*facts]
	shards []shard // a power of two
}

// newNear returns a near that asks by what it does not know. It starts no
// goroutine; units in hand should be given back before the process ends.
func newNear(o Options, by asker) *near {
	n := &near{
		by: by, lease: o.Lease, clock: clockOf(o.Now), age: int64(o.MaxDenial),
		keys: maphash.MakeSeed(), scopes: maphash.MakeSeed(), plans: new(sluice.Prepared[*facts]),
	}
	if n.age == 0 || n.age > int64(MaxAge) {
		n.age = int64(MaxAge)
	}
	keys := cmp.Or(o.MaxKeys, DefaultMaxKeys)
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

// clockOf returns the clock of which now tells the time, nil of the system's.
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
// [*sluice.NotSentError] of one who waited, or a [*sluice.RequestError] if a plan
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
