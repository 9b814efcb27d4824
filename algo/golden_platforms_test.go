// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

// repeat returns n copies of a step, changed by its number.
func repeat(n int, of func(i int64) step) []step {
	var all []step
	for i := range n {
		all = append(all, of(int64(i)))
	}
	return all
}

// TestGoldenPlatforms plays what platforms document of their own limits, in the
// terms of ours. Their words for our numbers are in the names.
func TestGoldenPlatforms(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits []sluice.Limit
		steps  []step
	}{
		{"nginx rate=10r/s burst=5", one(leaky(10, s, 6, 1)), append(
			repeat(6, func(i int64) step {
				return step{0, take, 1, pass, 5 - i, noRetry, (i + 1) * 100 * ms, i * 100 * ms}
			}),
			step{0, take, 1, deny, 0, 100 * ms, 600 * ms, noDelay},
			step{0, take, 1, deny, 0, 100 * ms, 600 * ms, noDelay},
			step{100 * ms, take, 1, pass, 0, noRetry, 600 * ms, 500 * ms},
		)},
		{"nginx rate=10r/s burst=5 nodelay", one(leaky(10, s, 6, 6)), append(
			repeat(6, func(i int64) step { return step{0, take, 1, pass, 5 - i, noRetry, (i + 1) * 100 * ms, noDelay} }),
			step{0, take, 1, deny, 0, 100 * ms, 600 * ms, noDelay},
		)},
		{"nginx rate=5r/s burst=12 delay=8", one(leaky(5, s, 13, 9)), append(
			repeat(13, func(i int64) step {
				return step{0, take, 1, pass, 12 - i, noRetry, (i + 1) * 200 * ms, max(i-8, 0) * 200 * ms}
			}),
			step{0, take, 1, deny, 0, 200 * ms, 2600 * ms, noDelay},
		)},
		{"nginx rate=1r/m without the truncation to 16 per 1000 s", one(leaky(1, m, 1, 1)), []step{
			{0, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{60*s - 1, take, 1, deny, 0, 1, 1, noDelay},
			{60 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
		}},
		{
			"nginx two zones: nothing is booked on denial, the longest delay wins",
			[]sluice.Limit{leaky(10, s, 6, 1).Named("server"), leaky(1, s, 2, 1).Named("client")},
			[]step{
				{0, take, 1, pass, 1, noRetry, s, noDelay},
				{0, take, 1, pass, 0, noRetry, 2 * s, s},
				{0, take, 1, deny, 0, s, 2 * s, noDelay},
				{s, take, 1, pass, 0, noRetry, 2 * s, s},
			},
		},
		{"EC2 DescribeHosts: bucket of 100, 20 per second", one(tokens(20, s, 100)), []step{
			{0, take, 100, pass, 0, noRetry, 5 * s, noDelay},
			{0, take, 1, deny, 0, 50 * ms, 5 * s, noDelay},
			{s, take, 20, pass, 0, noRetry, 5 * s, noDelay},
			{6 * s, take, 101, deny, 100, neverFit, 0, noDelay},
		}},
		{
			"EC2 RunInstances: requests and resources must both pass",
			[]sluice.Limit{tokens(2, s, 5).Named("requests"), tokens(2, s, 1000).Named("resources")},
			[]step{
				{0, take, 5, pass, 0, noRetry, 2500 * ms, noDelay},
				{0, take, 1, deny, 0, 500 * ms, 2500 * ms, noDelay},
				{2500 * ms, peek, 1, pass, 5, noRetry, 0, noDelay},
			},
		},
		{"EBS gp2 of 100 GiB: 5.4 M credits, earning 300/s, spent at 3000/s", one(tokens(300, s, 5_400_000)), append(
			repeat(1999, func(i int64) step {
				left := 5_400_000 - 3000 - 2700*i
				return step{i * s, take, 3000, pass, left, noRetry, (5_400_000 - left) * s / 300, noDelay}
			}),
			step{1999 * s, take, 3000, deny, 2700, s, 17991 * s, noDelay},
		)},
		{"EC2 t2.micro: 6 credits an hour, at most 144", one(tokens(6, h, 144)), []step{
			{0, take, 144, pass, 0, noRetry, 24 * h, noDelay},
			{23 * h, take, 138, pass, 0, noRetry, 24 * h, noDelay},
			{47 * h, peek, 144, pass, 144, noRetry, 0, noDelay},
		}},
		{"EC2 t2.micro with 30 launch credits, which it starts with and nothing else", one(with(tokens(6, h, 144), withheld(114))), []step{
			{0, take, 31, deny, 30, 10 * m, 19 * h, noDelay},
			{0, take, 30, pass, 0, noRetry, 24 * h, noDelay},
			{h, take, 6, pass, 0, noRetry, 24 * h, noDelay},
			{25 * h, peek, 144, pass, 144, noRetry, 0, noDelay},
		}},
		{
			"MWS SubmitFeed: bucket of 15, one per 2 min, 30 an hour",
			[]sluice.Limit{tokens(1, 2*m, 15), fixed(30, h)},
			append(append([]step{
				{0, take, 15, pass, 0, noRetry, 30 * m, noDelay},
				{0, take, 1, deny, 0, 2 * m, 30 * m, noDelay},
			}, repeat(15, func(i int64) step {
				return step{(i + 1) * 2 * m, take, 1, pass, 0, noRetry, 30 * m, noDelay}
			})...),
				step{32 * m, take, 1, deny, 0, 28 * m, 28 * m, noDelay},
			),
		},
		{"Shopify REST: meter of 40, leaking 2/s", one(leaky(2, s, 40, 40)), []step{
			{0, take, 32, pass, 8, noRetry, 16 * s, noDelay},
			{0, take, 8, pass, 0, noRetry, 20 * s, noDelay},
			{0, take, 1, deny, 0, 500 * ms, 20 * s, noDelay},
			{2 * s, take, 4, pass, 0, noRetry, 20 * s, noDelay},
		}},
		{"Bucket4j refillIntervally(10, 1 min), capacity 20", one(with(tokens(10, m, 20), byInterval)), []step{
			{0, take, 20, pass, 0, noRetry, 120 * s, noDelay},
			{60*s - 1, take, 1, deny, 0, 1, 60*s + 1, noDelay},
			{60 * s, take, 10, pass, 0, noRetry, 120 * s, noDelay},
			{90 * s, take, 11, deny, 0, 90 * s, 90 * s, noDelay},
			{150 * s, take, 10, pass, 0, noRetry, 90 * s, noDelay},
			{240 * s, take, 20, pass, 0, noRetry, 120 * s, noDelay},
		}},
		{"Bucket4j refillIntervallyAligned(10, 1 min, at the minute), capacity 20", one(with(tokens(10, m, 20), aligned)), []step{
			{30 * s, take, 10, pass, 10, noRetry, 30 * s, noDelay},
			{30 * s, take, 11, deny, 10, 30 * s, 30 * s, noDelay},
			{60*s - 1, take, 11, deny, 10, 1, 1, noDelay},
			{60 * s, take, 20, pass, 0, noRetry, 120 * s, noDelay},
			{119 * s, take, 1, deny, 0, s, 61 * s, noDelay},
			{120 * s, take, 10, pass, 0, noRetry, 120 * s, noDelay},
		}},
		{"Bucket4j adaptive start, aligned: 266 of 400 with 40 min left, all at the hour", one(with(tokens(400, h, 400), aligned, withheld(134))), []step{
			{20 * m, take, 267, deny, 266, 40 * m, 40 * m, noDelay},
			{20 * m, take, 266, pass, 0, noRetry, 40 * m, noDelay},
			{h - 1, take, 1, deny, 0, 1, 1, noDelay},
			{h, take, 400, pass, 0, noRetry, h, noDelay},
		}},
		{"Bucket4j adaptive start: 266 of 400, refill 400/h", one(with(tokens(400, h, 400), withheld(134))), []step{
			{0, take, 267, deny, 266, 9 * s, 1206 * s, noDelay},
			{0, take, 266, pass, 0, noRetry, h, noDelay},
		}},
		{"Bucket4j adaptive start: 366 of 400, refill 100/h at once", one(with(tokens(100, h, 400), byInterval, withheld(34))), []step{
			{0, take, 367, deny, 366, h, h, noDelay},
			{0, take, 366, pass, 0, noRetry, 4 * h, noDelay},
			{h, take, 100, pass, 0, noRetry, 4 * h, noDelay},
		}},
		{"RateLimitJ 10 s rule of precision 1 s: ten blocks, the running one included", one(with(counter(10, 9*s, 9), conservative)), []step{
			{500 * ms, take, 8, pass, 2, noRetry, 9*s + 500*ms, noDelay},
			{9 * s, take, 3, deny, 2, s, s, noDelay},
			{9 * s, take, 2, pass, 0, noRetry, 10 * s, noDelay},
			{10*s - 1, take, 1, deny, 0, 1, 9*s + 1, noDelay},
			{10 * s, take, 8, pass, 0, noRetry, 10 * s, noDelay},
		}},
		{"six blocks of 10 s: 70 used at 10:00:59, 51 at 10:01:05", one(with(counter(100, 50*s, 5), conservative)), []step{
			{5 * s, take, 20, pass, 80, noRetry, 55 * s, noDelay},
			{59 * s, take, 50, pass, 30, noRetry, 51 * s, noDelay},
			{65 * s, take, 1, pass, 49, noRetry, 55 * s, noDelay},
		}},
		{"GitHub without a login: 60 an hour from the first request", one(with(fixed(60, h), onFirst)), []step{
			{17 * m, take, 60, pass, 0, noRetry, h, noDelay},
			{76 * m, take, 1, deny, 0, m, m, noDelay},
			{77 * m, take, 1, pass, 59, noRetry, h, noDelay},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runTrace(t, c.limits, c.steps) })
	}
}

func TestGoldenAPIGateway(t *testing.T) {
	gateway := tokens(10_000, s, 5_000)
	t.Run("5,000 in 1 ms and 5,000 over the next 999 ms all pass", func(t *testing.T) {
		a := open(t, gateway)
		for i := range int64(5_000) {
			if d := a.take(origin+i*ms/5_000, 1); !d.Allowed {
				t.Fatalf("request %d in the first ms is denied", i+1)
			}
		}
		for i := range int64(5_000) {
			if d := a.take(origin+ms+i*999*ms/5_000, 1); !d.Allowed {
				t.Fatalf("request %d behind the first ms is denied", i+1)
			}
		}
	})
	t.Run("of 5,000 in the 1st ms and 5,000 in the 101st 6,000 pass", func(t *testing.T) {
		a := open(t, gateway)
		var allowed int
		for i := range int64(10_000) {
			if a.take(origin+i/5_000*100*ms, 1).Allowed {
				allowed++
			}
		}
		if allowed != 6_000 {
			t.Errorf("got %d allowed, want 6000", allowed)
		}
	})
}

// TestGoldenBlocks holds conservative counters against a plain count per block,
// which is how RateLimitJ counts: the running block and those before it.
func TestGoldenBlocks(t *testing.T) {
	for _, c := range []struct {
		name                 string
		quota, block, blocks int64
	}{
		{"RateLimitJ 10 s rule of precision 1 s", 10, s, 10},
		{"six blocks of 10 s", 100, 10 * s, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := with(counter(c.quota, (c.blocks-1)*c.block, int(c.blocks-1)), conservative)
			rapid.Check(t, func(t *rapid.T) {
				a, now, counts := open(t, l), origin, make(map[int64]int64)
				for range rapid.IntRange(1, 100).Draw(t, "takes") {
					now += rapid.Int64Range(0, 2*c.block).Draw(t, "gap")
					cost := rapid.Int64Range(1, c.quota).Draw(t, "cost")
					id, used := now/c.block, int64(0)
					for i := range c.blocks {
						used += counts[id-i]
					}
					want := used+cost <= c.quota
					if want {
						counts[id] += cost
					}
					if got := a.take(now, cost).Allowed; got != want {
						t.Fatalf("a take of %d at %d with %d used: allowed %v, want %v", cost, now-origin, used, got, want)
					}
				}
			})
		})
	}
}

// TestGoldenRedisCell plays the vectors of CL.THROTTLE. Its burst leaves out
// the first request, so ours is one more; its seconds are ours rounded up.
func TestGoldenRedisCell(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		steps []step
	}{
		{"15 30 60", tokens(30, 60*s, 16), append(
			repeat(16, func(i int64) step { return step{0, take, 1, pass, 15 - i, noRetry, (i + 1) * 2 * s, noDelay} }),
			step{0, take, 1, deny, 0, 2 * s, 32 * s, noDelay},
		)},
		{"0 1 2", tokens(1, 2*s, 1), []step{
			{0, take, 1, pass, 0, noRetry, 2 * s, noDelay},
			{0, take, 1, deny, 0, 2 * s, 2 * s, noDelay},
		}},
		{"4 1 1", tokens(1, s, 5), append(append(
			[]step{{0, take, 6, deny, 5, neverFit, 0, noDelay}},
			repeat(5, func(i int64) step { return step{0, take, 1, pass, 4 - i, noRetry, (i + 1) * s, noDelay} })...),
			step{0, take, 1, deny, 0, s, 5 * s, noDelay},
		)},
		{"2 3 10", tokens(3, 10*s, 3), []step{
			{0, take, 1, pass, 2, noRetry, 3333334, noDelay},
			{0, take, 1, pass, 1, noRetry, 6666667, noDelay},
			{0, take, 1, pass, 0, noRetry, 10 * s, noDelay},
			{0, take, 1, deny, 0, 3333334, 10 * s, noDelay},
			{0, peek, 0, pass, 0, noRetry, 10 * s, noDelay},
		}},
		{"the time series at 1/s", tokens(1, s, 5), []step{
			{0, take, 5, pass, 0, noRetry, 5 * s, noDelay},
			{3000 * ms, take, 1, pass, 2, noRetry, 3000 * ms, noDelay},
			{3100 * ms, take, 1, pass, 1, noRetry, 3900 * ms, noDelay},
			{4000 * ms, take, 1, pass, 1, noRetry, 4000 * ms, noDelay},
			{8000 * ms, take, 1, pass, 4, noRetry, 1000 * ms, noDelay},
			{9500 * ms, take, 1, pass, 4, noRetry, 1000 * ms, noDelay},
			{9500 * ms, take, 0, pass, 4, noRetry, 1000 * ms, noDelay},
			{9500 * ms, take, 2, pass, 2, noRetry, 3000 * ms, noDelay},
			{9500 * ms, take, 5, deny, 2, 3000 * ms, 3000 * ms, noDelay},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runTrace(t, one(c.limit), c.steps) })
	}
}

// TestGoldenThrottlecrab plays its remaining and retry; its reset counts
// something else.
func TestGoldenThrottlecrab(t *testing.T) {
	t.Run("10 100 60", func(t *testing.T) {
		runTrace(t, one(tokens(100, 60*s, 10)), []step{{0, take, 1, pass, 9, noRetry, 600 * ms, noDelay}})
	})
	t.Run("10 100 60 5", func(t *testing.T) {
		runTrace(t, one(tokens(100, 60*s, 10)), []step{{0, take, 5, pass, 5, noRetry, 3 * s, noDelay}})
	})
	t.Run("3 10 60", func(t *testing.T) {
		runTrace(t, one(tokens(10, 60*s, 3)), []step{
			{0, take, 1, pass, 2, noRetry, 6 * s, noDelay},
			{0, take, 1, pass, 1, noRetry, 12 * s, noDelay},
			{0, take, 1, pass, 0, noRetry, 18 * s, noDelay},
			{0, take, 1, deny, 0, 6 * s, 18 * s, noDelay},
		})
	})
	t.Run("no 17 of a burst of 10 after one request and 8.9 s", func(t *testing.T) {
		runTrace(t, one(tokens(1, s, 10)), []step{
			{0, take, 1, pass, 9, noRetry, s, noDelay},
			{8900 * ms, upTo, 17, pass, 0, noRetry, 10 * s, noDelay},
			{8900 * ms, take, 1, deny, 0, s, 10 * s, noDelay},
		})
	})
}
