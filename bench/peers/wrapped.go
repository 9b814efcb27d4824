// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"hash/maphash"
	"sync"

	"github.com/RussellLuo/slidingwindow"
	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

// wrapped are the peers that know no keys, in the ways in which people give
// them keys.
func wrapped() []Contender {
	const xtime = "golang.org/x/time"
	return []Contender{
		{Name: "xtime-syncmap", Counts: "x/time/rate in a sync.Map", Module: xtime, New: inSyncMap(newXTime)},
		{Name: "xtime-mutex", Counts: "x/time/rate in a map with a mutex", Module: xtime, New: inMap(newXTime)},
		{Name: "xtime-sharded", Counts: "x/time/rate in 256 maps with a mutex each", Module: xtime, New: inShards(newXTime)},
		{Name: "juju-syncmap", Counts: "token bucket in a sync.Map", Module: "github.com/juju/ratelimit", New: inSyncMap(newJuju)},
		{
			Name: "slidingwindow-syncmap", Counts: "sliding counter in a sync.Map", Windowed: true,
			Module: "github.com/RussellLuo/slidingwindow", New: inSyncMap(newSlidingWindow),
		},
	}
}

// single is one limiter of one key.
type single interface{ take() bool }

type xtimeSingle struct{ *rate.Limiter }

func newXTime(l Limit) single {
	return xtimeSingle{rate.NewLimiter(rate.Limit(l.perSecond()), int(l.Burst))}
}

func (x xtimeSingle) take() bool { return x.Allow() }

type jujuSingle struct{ *ratelimit.Bucket }

func newJuju(l Limit) single {
	return jujuSingle{ratelimit.NewBucket(l.interval(), l.Burst)}
}

func (j jujuSingle) take() bool { return j.TakeAvailable(1) == 1 }

type slidingSingle struct{ *slidingwindow.Limiter }

func newSlidingWindow(l Limit) single {
	lim, _ := slidingwindow.NewLimiter(l.Window, l.count(), func() (slidingwindow.Window, slidingwindow.StopFunc) {
		return slidingwindow.NewLocalWindow() // has nothing to stop
	})
	return slidingSingle{lim}
}

func (s slidingSingle) take() bool { return s.Allow() }

// syncMap is the common idiom: a look, and only then a new limiter.
type syncMap struct {
	unclosed
	m     sync.Map
	limit Limit
	make  func(Limit) single
}

func inSyncMap(newSingle func(Limit) single) func(Limit, int) (Limiter, error) {
	return func(l Limit, _ int) (Limiter, error) { return &syncMap{limit: l, make: newSingle}, nil }
}

func (s *syncMap) Take(key string) (bool, error) {
	v, ok := s.m.Load(key)
	if !ok {
		v, _ = s.m.LoadOrStore(key, s.make(s.limit))
	}
	return v.(single).take(), nil
}

// lockedMap is a map that a mutex guards while a key is looked up.
type lockedMap struct {
	mu sync.Mutex
	m  map[string]single
	_  [48]byte // a cache line of its own, in a slice of them
}

func (s *lockedMap) get(key string, l Limit, newSingle func(Limit) single) single {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[key]
	if !ok {
		v = newSingle(l)
		s.m[key] = v
	}
	return v
}

type mutexMap struct {
	unclosed
	lockedMap
	limit Limit
	make  func(Limit) single
}

func inMap(newSingle func(Limit) single) func(Limit, int) (Limiter, error) {
	return func(l Limit, _ int) (Limiter, error) {
		return &mutexMap{lockedMap: lockedMap{m: make(map[string]single)}, limit: l, make: newSingle}, nil
	}
}

func (s *mutexMap) Take(key string) (bool, error) {
	return s.get(key, s.limit, s.make).take(), nil
}

type shardedMap struct {
	unclosed
	seed   maphash.Seed
	shards [256]lockedMap
	limit  Limit
	make   func(Limit) single
}

func inShards(newSingle func(Limit) single) func(Limit, int) (Limiter, error) {
	return func(l Limit, _ int) (Limiter, error) {
		s := &shardedMap{seed: maphash.MakeSeed(), limit: l, make: newSingle}
		for i := range s.shards {
			s.shards[i].m = make(map[string]single)
		}
		return s, nil
	}
}

func (s *shardedMap) Take(key string) (bool, error) {
	shard := &s.shards[maphash.String(s.seed, key)%uint64(len(s.shards))]
	return shard.get(key, s.limit, s.make).take(), nil
}
