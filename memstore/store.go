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
	// MaxKeys is the number of states that the Store holds without evicting one: a
	// state for each key under each limit. Zero means 1,048,576, a negative number 1.
	// Keys spread over shards by chance, so every shard has room for about an eighth
	// more: the odds that a state is evicted before there are MaxKeys are less than 1
	// in 1000.
	//
	// With the default the Store takes at most 45 MB for token buckets, fixed windows
	// and sliding counters. A sliding log, a sliding histogram and a sliding counter of
	// several sub-windows take up to 8 bytes for each unit or part in addition: choose
	// MaxKeys by the memory that their keys may take.
	MaxKeys int
	// Now is the clock: nil means the system's. Instants before 1970 count as 1970, and
	// those after September 2112 as September 2112. It must be safe for concurrent use
	// and may step in any direction: see the package comment.
	Now func() time.Time
}

// Store is a [sluice.Store] and [sluice.SlotStore] in this process. It is safe for
// concurrent use. Its methods return an error for an invalid request. See the package
// comment for memory, eviction and the clock.
type Store struct {
	secret   keyhash.Secret // of the hash of keys
	clock    clock
	shift    uint                        // of a hash, gives its part
	perShard int                         // states that a shard of one part holds
	shards   []atomic.Pointer[shard]     // of each part of the hashes
	arrays   []atomic.Pointer[wordArray] // of each part, adjacent in memory
	registry registry
	voids    voids
	// scratches hold *scratch. One for each shard would take much memory beside few
	// states.
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
	s.registry.held.most = int64(max(keys/heldPart, 1))
	s.open(8 * runtime.GOMAXPROCS(0)) // so that processors seldom wait for each other
	s.clock.init(opts.Now)
	return s
}

// open replaces the Store's shards by empty ones. Their number is shards, rounded up to a
// power of two, or the maximum of the Store if that is less.
func (s *Store) open(shards int) {
	parts := max(len(s.shards)>>bits.Len(uint(shards-1)), 1)
	for i := 0; i < len(s.shards); i += parts {
		for k := range parts {
			s.arrays[i+k].Store(nil)
		}
		s.publish(s.newShard(i, parts))
	}
}

// shardsFor returns the maximum number of shards of a Store for that many keys, a power of
// two, and the number of states that each must hold.
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
	// The number of keys in a shard is about normally distributed, and its variance is
	// the mean: with five deviations more, hardly one of thousands of shards overflows.
	return n, mean + 5*int(math.Ceil(math.Sqrt(float64(mean))))
}

// part returns the part of a hash.
func (s *Store) part(hash uint64) uint64 { return hash >> s.shift } // a shift of 64 gives 0

// Take decides req. It waits only for other calls, so it ignores ctx. It allocates
// only if a ring grows, a table is rebuilt or the request has more than 8 limits. The
// error, if there is one, is a [*sluice.RequestError].
func (s *Store) Take(_ context.Context, req sluice.Request) (d sluice.Decision, err error) {
	if err = req.Validate(); err == nil {
		s.decide(&req, s.clock.now(), &d)
	}
	return d, err
}

// TakeBatch decides reqs in their order, each by itself, all at one instant. It checks ctx
// once, before the first.
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
