// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// RedisContender is a limiter, or a yardstick, that keeps its state in Redis.
type RedisContender struct {
	Name   string // as in reports: [a-z0-9._-]
	Counts string // its algorithm, and which client it talks through
	// Module is where it comes from, empty for what this repository holds.
	Module string
	// Yardstick says that it decides nothing: it allows whatever is asked.
	Yardstick bool
	// New connects a Limiter to the server at addr.
	New func(addr string, l Limit) (Limiter, error)
}

// Redis returns the contenders on Redis: the yardsticks first, then sluice,
// then the peers.
func Redis() []RedisContender {
	return slices.Concat(redisFloors(), redisSluices(), redisGoRedis(), redisPeers())
}

// RedisOption is how what is compared here talks through rueidis, as redisstore does.
func RedisOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true}
}

// redisTimeout leaves a slow machine time: an error is no decision.
const redisTimeout = 10 * time.Second

// OpenRedis returns a sluice store on the server at addr.
func OpenRedis(addr string, o redisstore.Options) (*rueidisstore.Store, error) {
	o.Timeout = redisTimeout
	s, err := rueidisstore.Open(context.Background(), "redis://"+addr, o)
	if err != nil {
		return nil, err
	}
	if err := s.Err(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// redisSluices are sluice's contenders: the token bucket under the plain name,
// the same with a call for every take, and each other algorithm, logs so too.
func redisSluices() []RedisContender {
	shared := func(name, a string) RedisContender {
		return RedisContender{Name: name, Counts: a + " in redisstore", New: newRedisSluice(a, redisstore.Options{})}
	}
	alone := func(name, a string) RedisContender {
		return RedisContender{Name: name, Counts: a + " in redisstore, a call for every take", New: newRedisSluice(a, redisstore.Options{NoCoalescing: true})}
	}
	const bucket = "token-bucket"
	all := []RedisContender{shared("sluice", bucket), alone("sluice.alone", bucket)}
	for _, a := range []string{"leaky-bucket", "fixed-window", "sliding-counter"} {
		all = append(all, shared("sluice."+a, a))
	}
	for _, a := range []string{"sliding-log", "sliding-histogram"} {
		all = append(all, alone("sluice."+a, a))
	}
	return all
}

func newRedisSluice(algorithm string, o redisstore.Options) func(string, Limit) (Limiter, error) {
	return func(addr string, l Limit) (Limiter, error) {
		store, err := OpenRedis(addr, o)
		if err != nil {
			return nil, err
		}
		lim, err := sluice.New(store, "bench", Algorithms(l)[algorithm])
		return redisSluice{sluiceLimiter{lim: lim, ctx: context.Background()}, store}, err
	}
}

type redisSluice struct {
	sluiceLimiter
	store io.Closer
}

func (s redisSluice) Close() error { return s.store.Close() }
