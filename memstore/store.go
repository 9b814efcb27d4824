// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/keyhash"
)

// Options are the settings of a [Store]. The zero value is ready to use.
type Options struct {
	// MaxKeys is how many states the Store holds without forgetting one: one
	// for each key under each limit. Zero means 1,048,576, a negative
	// number 1. As keys spread over shards by chance, every shard has room for
	// about an eighth more, so that a state is evicted before MaxKeys are held
	// with odds of less than 1 in 1000.
	//
	// With the default the Store takes at most 45 MB for token buckets, fixed
	// windows and sliding counters. A sliding log, a sliding histogram and a
	// sliding counter of more than one sub-window take up to 8 bytes a unit or
	// part in addition: bound MaxKeys by what their keys may take.
	MaxKeys int
	// Now is the clock: nil means the system's. Instants before 1970 count as
	// 1970, and those after September 2112 as then. It must be safe for concurrent use and may
	// step in any direction: see the package comment.
	Now func() time.Time
}

// Store is a [sluice.Store] and [sluice.SlotStore] in this process. It is safe
// for concurrent use. Its methods fail for a request that cannot be, for a ctx that has
// ended and after Close. See the package comment for what it promises.
type Store struct {
	secret   keyhash.Secret // of the hash that stands for a key, by which states are found
	clock    clock
	shift    uint                        // of a hash, to get its part
	perShard int                         // states that a shard of one part holds
	shards   []atomic.Pointer[shard]     // of each part of the hashes
	arrays   []atomic.Pointer[wordArray] // of each part, close together
	registry registry
	voids    voids
	// scratches are what requests are decided in: not of each shard, as that would be much
	// for a shard of few states.
	scratches sync.Pool
}

var (
	_ sluice.Store     = (*Store)(nil)
	_ sluice.SlotStore = (*Store)(nil)
)

// New returns an empty Store. It starts no goroutine and needs no closing.
func New(opts Options) *Store {
	keys := opts.MaxKeys
	switch {
	case keys == 0:
		keys = bounds.DefaultMaxKeys
	case keys < 0:
		keys = 1
	}
	n, perShard := shardsFor(keys)
	s := &Store{
		secret:   keyhash.New(),
		shift:    uint(64 - bits.Len(uint(n-1))),
		perShard: perShard,
		shards:   make([]atomic.Pointer[shard], n),
		arrays:   make([]atomic.Pointer[wordArray], n),
	}
	s.open(8 * runtime.GOMAXPROCS(0)) // so that processors seldom wait for each other
	s.clock.init(opts.Now)
	return s
}

// open gives the Store empty shards in the place of those that it has: so many, rounded up
// to a power of two, if it may have as many.
func (s *Store) open(shards int) {
	parts := max(len(s.shards)>>bits.Len(uint(shards-1)), 1)
	for i := 0; i < len(s.shards); i += parts {
		for k := range parts {
			s.arrays[i+k].Store(nil)
		}
		s.publish(s.newShard(i, parts))
	}
}

// shardsFor returns of how many shards one that holds so many keys has at most, a power of
// two, and how many each must hold.
func shardsFor(keys int) (n, perShard int) {
	const small, few = 512, 16
	n = 1
	for keys/n > fullShard && n < 1<<shardBits || n < few && keys/n >= 2*small {
		n *= 2
	}
	mean := (keys + n - 1) / n
	if n == 1 {
		return n, mean
	}
	// Keys fall into a shard by chance, in number about normally distributed
	// with a variance of the mean: with five deviations more, hardly one of
	// thousands of shards overflows.
	return n, mean + 5*int(math.Ceil(math.Sqrt(float64(mean))))
}

// part returns the part that a hash is of.
func (s *Store) part(hash uint64) uint64 { return hash >> s.shift } // a shift of 64 gives 0

// Take decides req. It never blocks for longer than other calls decide, so it
// does not look at ctx. It does not allocate unless a ring must grow, a table
// is rebuilt or the request has more than 8 limits. The error, if there is one,
// is a [*sluice.RequestError].
func (s *Store) Take(_ context.Context, req sluice.Request) (d sluice.Decision, err error) {
	if err = req.Validate(); err == nil {
		s.decide(&req, s.clock.now(), &d)
	}
	return d, err
}

// TakeBatch decides reqs in their order, all at one instant, each by itself. It
// looks at ctx once, before the first.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if len(out) != len(reqs) {
		return fmt.Errorf("memstore: take batch: %d results for %d requests; pass as many", len(out), len(reqs))
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: take batch: %w", err)
	}
	now := s.clock.now()
	for i := range reqs {
		if err := reqs[i].Validate(); err != nil {
			out[i] = sluice.Result{Err: err}
			continue
		}
		out[i].Err = nil
		s.decide(&reqs[i], now, &out[i].Decision)
	}
	return nil
}
