// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// redisGoRedis are sluice's contenders over a go-redis client with its default
// options. The second has a call for every take.
func redisGoRedis() []RedisContender {
	return []RedisContender{
		{Name: "sluice.goredis", Counts: "token-bucket in redisstore over go-redis", New: newSluiceGoRedis(redisstore.Options{})},
		{Name: "sluice.goredis-alone", Counts: "token-bucket in redisstore over go-redis, a call for every take", New: newSluiceGoRedis(redisstore.Options{NoCoalescing: true})},
	}
}

func newSluiceGoRedis(o redisstore.Options) func(string, Limit) (Limiter, error) {
	o.Timeout = redisTimeout
	return func(addr string, l Limit) (Limiter, error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		store, err := goredis.New(client, o)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		lim, err := sluice.New(store, "bench", Algorithms(l)["token-bucket"])
		return sluiceGoRedis{redisSluice{sluiceLimiter{lim: lim, ctx: context.Background()}, store}, client}, err
	}
}

type sluiceGoRedis struct {
	redisSluice
	client *redis.Client
}

func (s sluiceGoRedis) Close() error { return errors.Join(s.redisSluice.Close(), s.client.Close()) }
