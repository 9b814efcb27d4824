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

// redisGoRedis are sluice's contenders over a go-redis client: with its default
// options, and with the one that package goredis recommends.
func redisGoRedis() []RedisContender {
	of := func(name, how string, obeys bool) RedisContender {
		return RedisContender{Name: name, Counts: "token-bucket in redisstore over go-redis" + how, New: func(addr string, l Limit) (Limiter, error) {
			return newSluiceGoRedis(&redis.Options{Addr: addr, ContextTimeoutEnabled: obeys}, l)
		}}
	}
	return []RedisContender{of("sluice.goredis", "", false), of("sluice.goredis-ctx", " with ContextTimeoutEnabled", true)}
}

func newSluiceGoRedis(o *redis.Options, l Limit) (Limiter, error) {
	client := redis.NewClient(o)
	store, err := goredis.New(client, redisstore.Options{Timeout: redisTimeout})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	lim, err := sluice.New(store, "bench", Algorithms(l)["token-bucket"])
	return sluiceGoRedis{redisSluice{sluiceLimiter{lim: lim, ctx: context.Background()}, store}, client}, err
}

type sluiceGoRedis struct {
	redisSluice
	client *redis.Client
}

func (s sluiceGoRedis) Close() error { return errors.Join(s.redisSluice.Close(), s.client.Close()) }
