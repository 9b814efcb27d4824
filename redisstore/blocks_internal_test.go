// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// blocksScript counts as RateLimitJ's rules say: a hash of counts by block, and
// their sum. A request that would take the sum over the limit is not recorded.
const blocksScript = `
local now, duration, precision, limit, cost = unpack(ARGV)
local blocks = math.ceil(duration / precision)
local block = math.floor(now / precision)
local oldest = tonumber(redis.call('HGET', KEYS[1], 'o') or block)
for id = oldest, math.min(block - blocks, oldest + 1000) do
	local count = redis.call('HGET', KEYS[1], id)
	if count then
		redis.call('HINCRBY', KEYS[1], 'sum', -count)
		redis.call('HDEL', KEYS[1], id)
	end
end
redis.call('HSET', KEYS[1], 'o', math.max(oldest, block - blocks + 1))
if tonumber(redis.call('HGET', KEYS[1], 'sum') or 0) + cost > tonumber(limit) then
	return 0
end
redis.call('HINCRBY', KEYS[1], block, cost)
redis.call('HINCRBY', KEYS[1], 'sum', cost)
return 1`

// TestWholeSubWindowsAreBlocks: a counter of whole sub-windows decides on a real
// server as a script that counts in blocks does, call by call.
func TestWholeSubWindowsAreBlocks(t *testing.T) {
	testkit.SkipRace(t)
	const calls = 12_000
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "blocks")
	rnd := rand.New(rand.NewPCG(12, 1))
	for i, c := range []struct {
		limit               string
		duration, precision time.Duration
		quota               int64
	}{
		{"10/10s sliding-counter sub-windows 10 whole", 10 * time.Second, time.Second, 10},
		{"100/min sliding-counter sub-windows 6 whole", time.Minute, 10 * time.Second, 100},
		{"7/min sliding-counter sub-windows 2 whole", time.Minute, 30 * time.Second, 7},
		{"20/12s sliding-counter sub-windows 4 whole", 10 * time.Second, 3 * time.Second, 20}, // a part of a block counts as one
	} {
		t.Run(c.limit, func(t *testing.T) {
			plan := testkit.Plan(t, fmt.Sprint("blocks", i), c.limit)
			now, passed, differ := int64(1_790_000_000_000_000), 0, 0
			for n := range calls {
				now += rnd.Int64N(c.precision.Microseconds()) * rnd.Int64N(4) / 3
				cost := 1 + rnd.Int64N(1+c.quota/8)
				s.Set(now)
				d, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: cost}})
				if err != nil {
					t.Fatal(err)
				}
				if want := inBlocks(t, client, fmt.Sprint("theirs", i), now, c.duration, c.precision, c.quota, cost); d.Allowed != want {
					differ++
					t.Errorf("call %d, of %d at %d: got allowed %v, want %v", n, cost, now, d.Allowed, want)
				}
				if d.Allowed {
					passed++
				}
				if differ > 5 {
					t.FailNow()
				}
			}
			if passed < calls/10 || passed > calls*9/10 {
				t.Errorf("%d of %d calls passed: the test is too weak", passed, calls)
			}
		})
	}
}

// inBlocks puts a request to the script. Its numbers are in µs.
func inBlocks(t *testing.T, client rueidis.Client, key string, now int64, duration, precision time.Duration, quota, cost int64) bool {
	t.Helper()
	arg := func(n int64) string { return fmt.Sprint(n) }
	got, err := client.Do(t.Context(), client.B().Eval().Script(blocksScript).Numkeys(1).Key(key).
		Arg(arg(now), arg(duration.Microseconds()), arg(precision.Microseconds()), arg(quota), arg(cost)).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return got == 1
}
