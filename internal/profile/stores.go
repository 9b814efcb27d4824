// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile

import "github.com/sluicegate/sluice"

// stores limit in a store that processes share.
func stores() []Profile {
	return []Profile{
		{
			Name: "ratelimitj", Title: "RateLimitJ, 10 in 10 s with a precision of 1 s",
			Source: "https://github.com/mokies/ratelimitj",
			Limits: limits("10/10s sliding-counter sub-windows 10 whole"),
			Differs: []string{
				"without a precision RateLimitJ is a fixed window: 10/10s fixed-window",
				"RateLimitJ refuses a request whose clock is behind; here no store uses the clocks of its callers",
				"RateLimitJ can also record what it denies, and deny at the limit already (geLimit); neither is this",
			},
			Vectors: []Vector{
				{Name: "RateLimitJ of 10 s in blocks of 1 s", Steps: []Step{
					pass(500*ms, 8, 2).reset(9*sec + 500*ms),
					deny(9*sec, 3, 2, sec).reset(sec),
					pass(9*sec, 2, 0).reset(10 * sec),
					deny(10*sec-us, 1, 0, us).reset(9*sec + us),
					pass(10*sec, 8, 0).reset(10 * sec),
				}},
				{Name: "RateLimitJ of 10 s in blocks of 1 s: all 10 s after", Steps: []Step{
					pass(500*ms, 8, 2),
					pass(10*sec, 10, 0),
				}},
				{Name: "six blocks of 10 s: 70 used at 10:00:59, 51 at 10:01:05", Limits: limits("100/min sliding-counter sub-windows 6 whole"), Steps: []Step{
					pass(5*sec, 20, 80).reset(55 * sec),
					pass(59*sec, 50, 30).reset(51 * sec),
					pass(65*sec, 1, 49).reset(55 * sec),
				}},
				{Name: "RateLimitJ of 10 s without a precision", Limits: limits("10/10s fixed-window"), Steps: []Step{
					pass(9900*ms, 10, 0),
					deny(9999*ms, 1, 0, ms),
					pass(10*sec, 10, 0),
				}},
			},
		},
		{
			Name: "redis-cell", Title: "redis-cell, CL.THROTTLE key 15 30 60",
			Source: "https://github.com/brandur/redis-cell",
			Limits: limits("30/60s burst 16"),
			Differs: []string{
				"redis-cell divides the period by the count and keeps whole nanoseconds; nothing is rounded here",
				"its burst leaves out the first request, its times are whole seconds, rounded down",
			},
			Vectors: []Vector{
				{Name: "CL.THROTTLE 15 30 60", Steps: []Step{
					all(0, 16, 0).reset(32 * sec),
					deny(0, 1, 0, 2*sec).reset(32 * sec),
				}},
				{Name: "CL.THROTTLE 0 1 2", Limits: limits("1/2s"), Steps: []Step{
					pass(0, 1, 0).reset(2 * sec),
					deny(0, 1, 0, 2*sec).reset(2 * sec),
				}},
				{Name: "CL.THROTTLE 4 1 1", Limits: limits("1/s burst 5"), Steps: []Step{
					never(0, 6, 5),
					pass(0, 1, 4).reset(sec),
					all(0, 4, 0).reset(5 * sec),
					deny(0, 1, 0, sec).reset(5 * sec),
				}},
				{Name: "CL.THROTTLE 2 3 10", Limits: limits("3/10s"), Steps: []Step{
					pass(0, 1, 2).reset(3333334 * us),
					pass(0, 1, 1).reset(6666667 * us),
					pass(0, 1, 0).reset(10 * sec),
					deny(0, 1, 0, 3333334*us).reset(10 * sec),
					pass(0, 0, 0).peeked().reset(10 * sec),
				}},
				{Name: "CL.THROTTLE 4 1 1 in time", Limits: limits("1/s burst 5"), Steps: []Step{
					pass(0, 5, 0).reset(5 * sec),
					pass(3*sec, 1, 2).reset(3 * sec),
					pass(3100*ms, 1, 1).reset(3900 * ms),
					pass(4*sec, 1, 1).reset(4 * sec),
					pass(8*sec, 1, 4).reset(sec),
					pass(9500*ms, 1, 4).reset(sec),
					pass(9500*ms, 0, 4).reset(sec),
					pass(9500*ms, 2, 2).reset(3 * sec),
					deny(9500*ms, 5, 2, 3*sec).reset(3 * sec),
				}},
			},
		},
		{
			Name: "throttlecrab", Title: "throttlecrab, max_burst 10, count_per_period 100, period 60",
			Source:  "https://github.com/lazureykis/throttlecrab",
			Limits:  limits("100/60s burst 10"),
			Differs: []string{"its reset_after is not the time until all is there again, which is what ours says"},
			Vectors: []Vector{
				{Name: "throttlecrab 10 100 60", Steps: []Step{pass(0, 1, 9).reset(600 * ms)}},
				{Name: "throttlecrab 10 100 60 5", Steps: []Step{pass(0, 5, 5).reset(3 * sec)}},
				{Name: "throttlecrab 3 10 60", Limits: limits("10/60s burst 3"), Steps: []Step{
					pass(0, 1, 2).reset(6 * sec),
					pass(0, 1, 1).reset(12 * sec),
					pass(0, 1, 0).reset(18 * sec),
					deny(0, 1, 0, 6*sec).reset(18 * sec),
				}},
				{Name: "throttlecrab: no 17 of a burst of 10 after one request and 8.9 s", Limits: limits("1/s burst 10"), Steps: []Step{
					pass(0, 1, 9).reset(sec),
					{At: 8900 * ms, Op: sluice.OpTakeUpTo, Cost: 17, Allowed: 1, Spent: 10, ResetAfter: 10 * sec},
					deny(8900*ms, 1, 0, sec).reset(10 * sec),
				}},
			},
		},
	}
}
