// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// redisFloors are what a call costs, and a script, and the shortest script that
// limits.
func redisFloors() []RedisContender {
	return []RedisContender{
		{Name: "incr", Counts: "INCR through rueidis", Yardstick: true, New: newIncr},
		{Name: "incr-go-redis", Counts: "INCR through go-redis", Yardstick: true, New: newIncrGoRedis},
		{Name: "return-1", Counts: "a script that returns 1, through rueidis", Yardstick: true, New: newScript("return 1")},
		{Name: "gcra", Counts: "a bare GCRA script of TIME, GET and SET, through rueidis", New: newScript(gcraScript)},
		{Name: "zset-log", Counts: "a script of a sorted set with an entry for each unit, through rueidis", New: newScript(zsetScript)},
	}
}

// gcraScript answers 1 if the unit fitted. ARGV: µs per unit, µs of a burst.
const gcraScript = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = tonumber(redis.call('GET', KEYS[1]) or 0)
if full < now then
	full = now
end
full = full + ARGV[1]
if full - now > tonumber(ARGV[2]) then
	return 0
end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return 1`

// zsetScript answers 1 if the unit fitted. ARGV: µs per unit, µs of a burst,
// µs of a window, quota.
const zsetScript = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[3])
local n = redis.call('ZCARD', KEYS[1])
if n >= tonumber(ARGV[4]) then
	return 0
end
redis.call('ZADD', KEYS[1], now, string.format('%.0f-%d', now, n))
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[3] / 1000))
return 1`

type incr struct {
	client rueidis.Client
	ctx    context.Context //nolint:containedctx // see sluiceLimiter
}

func newIncr(addr string, _ Limit) (Limiter, error) {
	client, err := rueidis.NewClient(RedisOption(addr))
	return incr{client, context.Background()}, err
}

func (i incr) Take(key string) (bool, error) {
	n, err := i.client.Do(i.ctx, i.client.B().Incr().Key(key).Build()).AsInt64()
	return n > 0, err
}

func (i incr) Close() error {
	i.client.Close()
	return nil
}

type incrGoRedis struct {
	client *redis.Client
	ctx    context.Context //nolint:containedctx // see sluiceLimiter
}

// newGoRedis has a connection for each of the callers that press it.
func newGoRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64})
}

func newIncrGoRedis(addr string, _ Limit) (Limiter, error) {
	return incrGoRedis{newGoRedis(addr), context.Background()}, nil
}

func (i incrGoRedis) Take(key string) (bool, error) {
	n, err := i.client.Incr(i.ctx, key).Result()
	return n > 0, err
}

func (i incrGoRedis) Close() error { return i.client.Close() }

// scripted is a script with one key that answers 1 or 0.
type scripted struct {
	client rueidis.Client
	ctx    context.Context //nolint:containedctx // see sluiceLimiter
	sha    string
	args   []string
}

func newScript(script string) func(string, Limit) (Limiter, error) {
	return func(addr string, l Limit) (Limiter, error) {
		client, err := rueidis.NewClient(RedisOption(addr))
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(script).Build()).ToString()
		if err != nil {
			client.Close()
			return nil, err
		}
		micros := func(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
		return scripted{client, ctx, sha, []string{
			micros(l.interval()), micros(l.interval() * time.Duration(l.Burst)), micros(l.Window), strconv.FormatInt(l.count(), 10),
		}}, nil
	}
}

func (s scripted) Take(key string) (bool, error) {
	n, err := s.client.Do(s.ctx, s.client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key).Arg(s.args...).Build()).AsInt64()
	return n == 1, err
}

func (s scripted) Close() error {
	s.client.Close()
	return nil
}
