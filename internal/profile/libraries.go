// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"time"

	"github.com/sluicegate/sluice"
)

// libraries limit within a process.
func libraries() []Profile {
	return []Profile{
		{
			Name: "guava-bursty", Title: "Guava RateLimiter.create(5), SmoothBursty",
			Source:  "https://github.com/google/guava/blob/master/guava/src/com/google/common/util/concurrent/SmoothRateLimiter.java",
			Limits:  limits("5/s initial 0 next-waits debt 100"),
			MaxWait: sluice.MaxWait,
			Differs: []string{
				"acquire of any number passes at once in Guava if nobody waits; here of up to 105, the 5 of a second's rest and the debt",
				"acquire waits for as long as it takes in Guava, an hour at most here",
				"a key that comes for the first time later than the rule began has its burst; a limiter of Guava's own begins without",
			},
			Vectors: []Vector{
				{Name: "Guava SmoothBursty of 5/s: waits of 0, 200, 400 ms, then 6 at once after 2 s of rest", Steps: []Step{
					wait(0, 1, 0),
					wait(0, 1, 200*ms),
					wait(0, 1, 400*ms),
					wait(2400*ms, 6, 0),
					wait(2400*ms, 1, 200*ms),
				}},
				{Name: "Guava SmoothBursty of 5/s: acquire(10) passes at once, and the next caller waits 2 s", Steps: []Step{
					{Op: sluice.OpReserve, Cost: 10, Allowed: 1},
					wait(0, 1, 2*sec),
				}},
				{Name: "Guava SmoothBursty of 5/s: 6 at once after 10 s of rest", Steps: []Step{
					wait(0, 1, 0),
					wait(10*sec, 6, 0),
					wait(10*sec, 1, 200*ms),
				}},
			},
		},
		{
			Name: "guava-warming-up", Title: "Guava RateLimiter.create(2, 4, SECONDS), SmoothWarmingUp",
			Source:  "https://github.com/google/guava/blob/master/guava/src/com/google/common/util/concurrent/SmoothRateLimiter.java",
			Limits:  limits("2/s warm-up 4s"),
			MaxWait: sluice.MaxWait,
			Differs: []string{
				"acquire of several passes in Guava as one does; here what costs more than the burst of 1 needs next-waits and a debt",
				"acquire waits for as long as it takes in Guava, an hour at most here",
				"Guava rounds each wait down to a microsecond; here the fractions are carried along",
			},
			Vectors: []Vector{
				{Name: "Guava SmoothWarmingUp of 2/s in 4 s: waits of 0, 1.375, 2.5, 3.375, 4, 4.5 and 5 s", Steps: []Step{
					wait(0, 1, 0),
					wait(0, 1, 1375*ms),
					wait(0, 1, 2500*ms),
					wait(0, 1, 3375*ms),
					wait(0, 1, 4*sec),
					wait(0, 1, 4500*ms),
					wait(0, 1, 5*sec),
				}},
				{Name: "Guava SmoothWarmingUp of 2/s in 4 s: colder after rest, for as long as that is", Steps: []Step{
					wait(0, 1, 0),
					wait(10*sec, 1, 0),
					wait(10*sec, 1, 1375*ms),
					wait(10*sec, 1, 2500*ms),
					wait(10*sec, 1, 3375*ms),
					wait(10*sec, 1, 4*sec),
					wait(15500*ms, 1, 0),
					wait(15500*ms, 1, 625*ms),
				}},
			},
		},
		{
			Name: "uber-go", Title: "go.uber.org/ratelimit, New(100), which has a slack of 10",
			Source:  "https://github.com/uber-go/ratelimit",
			Limits:  limits("100/s burst 11 initial 1"),
			MaxWait: sluice.MaxWait,
			Differs: []string{
				"Take waits for as long as it takes in Go, an hour at most here",
				"a key that comes for the first time later than the rule began has its slack; a limiter of uber-go's own begins without",
			},
			Vectors: []Vector{
				{Name: "uber-go of 100/s: waits of 0, 10, 20 ms, then 11 at once after 500 ms of rest", Steps: []Step{
					wait(0, 1, 0),
					wait(0, 1, 10*ms),
					wait(0, 1, 20*ms),
					wait(520*ms, 11, 0),
					wait(520*ms, 1, 10*ms),
				}},
				{Name: "uber-go of 100/s: 11 at once after 10 s of rest", Steps: []Step{
					wait(0, 1, 0),
					wait(10*sec, 11, 0),
					wait(10*sec, 1, 10*ms),
				}},
			},
		},
		{
			Name: "uber-go-without-slack", Title: "go.uber.org/ratelimit, New(100, WithoutSlack)",
			Source:  "https://github.com/uber-go/ratelimit",
			Limits:  limits("100/s burst 1"),
			MaxWait: sluice.MaxWait,
			Differs: []string{"Take waits for as long as it takes in Go, an hour at most here"},
			Vectors: []Vector{
				{Name: "uber-go of 100/s without slack", Steps: []Step{
					wait(0, 1, 0),
					wait(0, 1, 10*ms),
					wait(time.Second, 1, 0),
					wait(time.Second, 1, 10*ms),
				}},
			},
		},
		{
			Name: "bucket4j-greedy", Title: "Bucket4j, 1000 a minute and 50 a second with refillGreedy",
			Source: "https://bucket4j.com/",
			Limits: limits("1000/min", "50/s"),
			Differs: []string{
				"addTokens, forceAddTokens and replaceConfiguration have no counterpart: a limit that is changed goes by rules of its own",
			},
			Vectors: []Vector{
				{Name: "Bucket4j with two bandwidths: tryConsumeAsMuchAsPossible(500), estimateAbilityToConsume(10)", Steps: []Step{
					{Op: sluice.OpTakeUpTo, Cost: 500, Allowed: 1, Spent: 50},
					deny(0, 10, 0, 200*ms).peeked(),
					pass(200*ms, 10, 0),
				}},
				{Name: "Bucket4j adaptive start, 266 of 400 with a refill of 400 an hour", Limits: limits("400/h initial 266"), Steps: []Step{
					deny(0, 267, 266, 9*sec).reset(1206 * sec),
					pass(0, 266, 0).reset(hour),
				}},
				{Name: "Bucket4j adaptive start, 300 of 400 with a refill of 300 an hour", Limits: limits("300/h burst 400 initial 300"), Steps: []Step{
					deny(0, 301, 300, 12*sec),
					pass(0, 300, 0),
				}},
				{Name: "Bucket4j adaptive start, 333 of 400 with a refill of 200 an hour", Limits: limits("200/h burst 400 initial 333"), Steps: []Step{
					deny(0, 334, 333, 18*sec),
					pass(0, 333, 0),
				}},
				{Name: "Bucket4j adaptive start, 366 of 400 with a refill of 100 an hour", Limits: limits("100/h burst 400 initial 366"), Steps: []Step{
					deny(0, 367, 366, 36*sec),
					pass(0, 366, 0),
				}},
			},
		},
		{
			Name: "bucket4j-intervally", Title: "Bucket4j, capacity 20 with refillIntervally(10, 1 minute)",
			Source: "https://bucket4j.com/",
			Limits: limits("10/min burst 20 interval-refill"),
			Differs: []string{
				"the interval begins with the first token that is taken from a full bucket; in Bucket4j it begins when the bucket is made",
			},
			Vectors: []Vector{
				{Name: "Bucket4j refillIntervally", Steps: []Step{
					pass(0, 20, 0).reset(120 * sec),
					deny(60*sec-time.Microsecond, 1, 0, time.Microsecond).reset(60*sec + time.Microsecond),
					pass(60*sec, 10, 0).reset(120 * sec),
					deny(90*sec, 11, 0, 90*sec).reset(90 * sec),
					pass(150*sec, 10, 0).reset(90 * sec),
					pass(240*sec, 20, 0).reset(120 * sec),
				}},
				{Name: "Bucket4j adaptive start, 366 of 400 with a refill of 100 at once every hour", Limits: limits("100/h burst 400 interval-refill initial 366"), Steps: []Step{
					deny(0, 367, 366, hour).reset(hour),
					pass(0, 366, 0).reset(4 * hour),
					pass(hour, 100, 0).reset(4 * hour),
				}},
			},
		},
		{
			Name: "bucket4j-aligned", Title: "Bucket4j, capacity 20 with refillIntervallyAligned(10, 1 minute, at a minute of the clock)",
			Source: "https://bucket4j.com/",
			Limits: limits("10/min burst 20 aligned-refill"),
			Differs: []string{
				"the first refill is at a multiple of the interval since 1970; in Bucket4j it is at any instant",
				"the adaptive start is an initial that is computed by hand",
			},
			Vectors: []Vector{
				{Name: "Bucket4j refillIntervallyAligned", Steps: []Step{
					pass(30*sec, 10, 10).reset(30 * sec),
					deny(30*sec, 11, 10, 30*sec).reset(30 * sec),
					deny(60*sec-us, 11, 10, us).reset(us),
					pass(60*sec, 20, 0).reset(120 * sec),
					deny(119*sec, 1, 0, sec).reset(61 * sec),
					pass(120*sec, 10, 0).reset(120 * sec),
				}},
				{Name: "Bucket4j adaptive start, aligned: 266 of 400 with 40 min left, all at the hour", Limits: limits("400/h aligned-refill initial 266"), Steps: []Step{
					deny(20*minute, 267, 266, 40*minute).reset(40 * minute),
					pass(20*minute, 266, 0).reset(40 * minute),
					deny(hour-us, 1, 0, us).reset(us),
					pass(hour, 400, 0).reset(hour),
				}},
			},
		},
	}
}
