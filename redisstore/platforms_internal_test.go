// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/profile"
)

// TestConformanceWithPlatforms plays what platforms document of their own limits
// on real servers, by a clock that is set.
func TestConformanceWithPlatforms(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		server := redistest.Start(t, b)
		for _, p := range profile.All() {
			for _, v := range p.Vectors {
				t.Run(b.Name+"/"+p.Name+"/"+v.Name, func(t *testing.T) {
					s := clocked(t, server, v.Name)
					if err := v.Play(t.Context(), s, func(now time.Time) { s.Set(now.UnixMicro()) }); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// blocks counts as RateLimitJ documents its sliding window: in whole blocks of
// the precision, the running one included, with a running sum beside them. The
// instant is an argument, in seconds.
const blocks = `
local duration, limit, precision = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now, weight = tonumber(ARGV[4]), tonumber(ARGV[5])
local block = math.floor(now / precision)
local oldest = block - math.ceil(duration / precision) + 1
local sum = tonumber(redis.call('HGET', KEYS[1], 'sum') or '0')
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
	local id = tonumber(name)
	if id and id < oldest then
		sum = sum - tonumber(redis.call('HGET', KEYS[1], name))
		redis.call('HDEL', KEYS[1], name)
	end
end
redis.call('HSET', KEYS[1], 'sum', sum)
if sum + weight > limit then return 0 end
redis.call('HINCRBY', KEYS[1], 'sum', weight)
redis.call('HINCRBY', KEYS[1], block, weight)
return 1
`

// TestDifferentialRateLimitJ compares the profile, on the scripts, with counting in
// blocks on the same server, over random calls. SLUICE_RATELIMITJ names a file with
// the script of RateLimitJ itself, to be asked in its place.
func TestDifferentialRateLimitJ(t *testing.T) {
	p, _ := profile.Get("ratelimitj")
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	script, original := blocks, false
	if file := os.Getenv("SLUICE_RATELIMITJ"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, original = string(text), true
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, c := range []struct {
		limits                     []sluice.Limit
		duration, quota, precision int64
	}{
		{p.Limits, 10, 10, 1},
		{p.Vectors[2].Limits, 60, 100, 10},
		{p.Vectors[3].Limits, 10, 10, 10},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			s := clocked(t, server, fmt.Sprint(c.limits))
			lim, err := sluice.New(s, "blocks", c.limits...)
			if err != nil {
				t.Fatal(err)
			}
			args := func(now, cost int64) []string {
				seconds := strconv.FormatFloat(float64(now)/1e6, 'f', 6, 64)
				if original {
					return []string{fmt.Sprintf("[[%d,%d,%d]]", c.duration, c.quota, c.precision), seconds, strconv.FormatInt(cost, 10), "1", "0"}
				}
				return []string{strconv.FormatInt(c.duration, 10), strconv.FormatInt(c.quota, 10), strconv.FormatInt(c.precision, 10), seconds, strconv.FormatInt(cost, 10)}
			}
			now, allowed := profile.Start.UnixMicro(), 0
			const calls = 10_000
			for i := range calls {
				now += rnd.Int64N(rnd.Int64N(2*c.precision*1_000_000) + 1)
				cost := 1 + rnd.Int64N(1+rnd.Int64N(c.quota))
				reply, err := client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(1).Key(fmt.Sprint(c.limits)).Arg(args(now, cost)...).Build()).AsInt64()
				if err != nil {
					t.Fatal(err)
				}
				s.Set(now)
				d, err := lim.Take(t.Context(), "k", cost)
				if err != nil {
					t.Fatal(err)
				}
				want := reply == 1
				if original {
					want = reply == 0 // which says that it is over the limit
				}
				if d.Allowed != want {
					t.Fatalf("call %d, %d at %d: allowed %v, want %v", i+1, cost, now, d.Allowed, want)
				}
				if want {
					allowed++
				}
			}
			if allowed < calls/10 || allowed > calls*9/10 {
				t.Errorf("%d of %d calls were allowed: the test is too weak", allowed, calls)
			}
		})
	}
}
