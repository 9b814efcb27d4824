// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
)

func redisPeers() []RedisContender {
	return []RedisContender{{
		Name: "redis_rate", Counts: "GCRA script through go-redis",
		Module: "github.com/go-redis/redis_rate/v10", New: newRedisRate,
	}, {
		Name: "throttled", Counts: "GCRA by reading and then comparing and setting, through go-redis",
		Module: "github.com/throttled/throttled/v2", New: newThrottledRedis,
	}}
}

type redisRate struct {
	client *redis.Client
	lim    *redis_rate.Limiter
	limit  redis_rate.Limit
	ctx    context.Context //nolint:containedctx // see sluiceLimiter
}

func newRedisRate(addr string, l Limit) (Limiter, error) {
	client := newGoRedis(addr)
	return redisRate{
		client: client, lim: redis_rate.NewLimiter(client), ctx: context.Background(),
		limit: redis_rate.Limit{Rate: int(l.Quota), Burst: int(l.Burst), Period: l.Window},
	}, nil
}

func (r redisRate) Take(key string) (bool, error) {
	res, err := r.lim.Allow(r.ctx, key, r.limit)
	return err == nil && res.Allowed > 0, err
}

func (r redisRate) Close() error { return r.client.Close() }

type throttledRedis struct {
	throttledLimiter
	client *redis.Client
}

func newThrottledRedis(addr string, l Limit) (Limiter, error) {
	client := newGoRedis(addr)
	s, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	lim, err := newThrottledOn(s, l)
	return throttledRedis{lim, client}, err
}

func (t throttledRedis) Close() error { return t.client.Close() }
