// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"github.com/sluicegate/sluice"
)

// step is one request of a trace and the whole of its decision. Times are µs;
// at is counted from origin.
type step struct {
	at                  int64
	op                  sluice.Op
	cost                int64
	allowed             bool
	remaining           int64
	retry, reset, delay int64
}

const (
	take     = sluice.OpTake
	peek     = sluice.OpPeek
	upTo     = sluice.OpTakeUpTo
	charge   = sluice.OpCharge
	noDelay  = int64(0)
	noRetry  = int64(0)
	pass     = true
	deny     = false
	neverFit = int64(-1) // in a step's retry
)

// runTrace plays steps on one key.
func runTrace(t *testing.T, limits []sluice.Limit, steps []step) {
	t.Helper()
	a := open(t, limits...)
	for i, st := range steps {
		d := a.do(origin+st.at, sluice.Request{Op: st.op, Charge: sluice.Charge{Cost: st.cost}})
		got := st
		got.allowed, got.remaining = d.Allowed, d.Remaining
		got.retry, got.reset, got.delay = d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds()
		if d.TooLarge {
			got.retry = neverFit
		}
		if got != st {
			t.Errorf("step %d:\n got %+v\nwant %+v", i+1, got, st)
		}
	}
}

func one(l sluice.Limit) []sluice.Limit { return []sluice.Limit{l} }

func TestGoldenWindows(t *testing.T) {
	subWindows := func(l sluice.Limit, at, remaining int64) func(*testing.T) {
		return func(t *testing.T) {
			runTrace(t, one(l), []step{
				{5 * s, take, 20, pass, 80, noRetry, 65 * s, noDelay},
				{59 * s, take, 50, pass, 30, noRetry, 61 * s, noDelay},
				{at, take, 1, pass, remaining, noRetry, 120*s + at/(10*s)*10*s - at - 50*s, noDelay},
			})
		}
	}
	t.Run("six sub-windows interpolated hold 61 at 10:01:05", subWindows(counter(100, m, 6), 65*s, 39))
	t.Run("six sub-windows conservative hold 71 at 10:01:05", subWindows(with(counter(100, m, 6), conservative), 65*s, 29))
	t.Run("six sub-windows interpolated hold 51 at 10:01:10", subWindows(counter(100, m, 6), 70*s, 49))
	t.Run("six sub-windows conservative hold 51 at 10:01:10", subWindows(with(counter(100, m, 6), conservative), 70*s, 49))

	for _, c := range []struct {
		name  string
		limit sluice.Limit
		steps []step
	}{
		{"a log of 5 per 60 s", log(5, m), []step{
			{0, take, 1, pass, 4, noRetry, 60 * s, noDelay},
			{10 * s, take, 1, pass, 3, noRetry, 60 * s, noDelay},
			{20 * s, take, 1, pass, 2, noRetry, 60 * s, noDelay},
			{30 * s, take, 1, pass, 1, noRetry, 60 * s, noDelay},
			{40 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{50 * s, take, 1, deny, 0, 10 * s, 50 * s, noDelay},
			{70 * s, take, 1, pass, 1, noRetry, 60 * s, noDelay},
		}},
		{"a counter at 84×0.75+36 = 99 of 100", counter(100, m, 1), []step{
			{30 * s, take, 84, pass, 16, noRetry, 90 * s, noDelay},
			{75 * s, take, 36, pass, 1, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, pass, 0, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, deny, 0, 1, 105 * s, noDelay},
			{75*s + 1, take, 1, pass, 0, noRetry, 105*s - 1, noDelay},
			{75*s + 1, take, 1, deny, 0, 714285, 105*s - 1, noDelay},
			{75*s + 714286, take, 1, pass, 0, noRetry, 105*s - 714286, noDelay},
		}},
		{"a strict counter at 84×0.75+36 = 99 of 100", with(counter(100, m, 1), strict), []step{
			{30 * s, take, 84, pass, 16, noRetry, 90 * s, noDelay},
			{75 * s, take, 36, pass, 1, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, pass, 0, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, deny, 0, 714286, 105 * s, noDelay},
			{75*s + 714285, take, 1, deny, 0, 1, 105*s - 714285, noDelay},
			{75*s + 714286, take, 1, pass, 0, noRetry, 105*s - 714286, noDelay},
		}},
		{"a counter at 5+9×0.75 = 11.75 and 5+9×0.5 = 9.5 of 10", with(counter(10, m, 1), debtOf(10)), []step{
			{30 * s, take, 9, pass, 1, noRetry, 90 * s, noDelay},
			{75 * s, charge, 5, pass, 0, noRetry, 105 * s, noDelay},
			{75 * s, take, 0, deny, 0, 5000001, 105 * s, noDelay},
			{75 * s, take, 1, deny, 0, 11666667, 105 * s, noDelay},
			{90 * s, take, 1, pass, 0, noRetry, 90 * s, noDelay},
			{90 * s, take, 0, pass, 0, noRetry, 90 * s, noDelay},
			{90 * s, take, 1, deny, 0, 3333334, 90 * s, noDelay},
		}},
		{"a strict counter at 4+9×0.75 and 4+9×0.5 of 10", with(counter(10, m, 1), strict, debtOf(10)), []step{
			{30 * s, take, 9, pass, 1, noRetry, 90 * s, noDelay},
			{75 * s, charge, 4, pass, 0, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, deny, 0, 11666667, 105 * s, noDelay},
			{90 * s, take, 1, pass, 0, noRetry, 90 * s, noDelay},
		}},
		{"Xu's counter at 3+5×0.7 = 6.5 of 7", counter(7, m, 1), []step{
			{30 * s, take, 5, pass, 2, noRetry, 90 * s, noDelay},
			{78 * s, take, 3, pass, 1, noRetry, 102 * s, noDelay},
			{78 * s, take, 1, pass, 0, noRetry, 102 * s, noDelay},
			{78 * s, take, 1, deny, 0, 6000001, 102 * s, noDelay},
		}},
		{"Cloudflare's counter at 42×0.75+18 = 49.5 of 50", counter(50, m, 1), []step{
			{30 * s, take, 42, pass, 8, noRetry, 90 * s, noDelay},
			{75 * s, take, 18, pass, 1, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, pass, 0, noRetry, 105 * s, noDelay},
			{75 * s, take, 1, deny, 0, 714286, 105 * s, noDelay},
		}},
		{"a cost above what the weighed part leaves", counter(10, m, 1), []step{
			{30 * s, take, 9, pass, 1, noRetry, 90 * s, noDelay},
			{75 * s, take, 5, deny, 4, 5000001, 45 * s, noDelay},
			{75 * s, upTo, 5, pass, 0, noRetry, 105 * s, noDelay},
		}},
		{"a pre-filled counter stops the burst at the start", with(counter(100, m, 1), preFilled), []step{
			{0, take, 1, deny, 0, 1, 60 * s, noDelay},
			{1, take, 1, pass, 0, noRetry, 120*s - 1, noDelay},
			{600 * ms, take, 1, deny, 0, 1, 119*s + 400*ms, noDelay},
			{30 * s, take, 49, pass, 0, noRetry, 90 * s, noDelay},
			{120 * s, take, 100, pass, 0, noRetry, 120 * s, noDelay},
		}},
		{"a strict pre-filled counter", with(counter(100, m, 1), strict, preFilled), []step{
			{0, take, 1, deny, 0, 600 * ms, 60 * s, noDelay},
			{600 * ms, take, 1, pass, 0, noRetry, 119*s + 400*ms, noDelay},
			{30 * s, take, 49, pass, 0, noRetry, 90 * s, noDelay},
			{120 * s, take, 100, pass, 0, noRetry, 120 * s, noDelay},
		}},
		{"a fixed window admits twice its quota across an edge", fixed(100, m), []step{
			{60*s - 1, take, 100, pass, 0, noRetry, 1, noDelay},
			{60*s - 1, take, 1, deny, 0, 1, 1, noDelay},
			{60 * s, take, 100, pass, 0, noRetry, 60 * s, noDelay},
			{60 * s, take, 1, deny, 0, 60 * s, 60 * s, noDelay},
		}},
		{"a window opened at 10:00:30 runs to 10:01:30", with(fixed(5, m), onFirst), []step{
			{30 * s, take, 5, pass, 0, noRetry, 60 * s, noDelay},
			{60 * s, take, 1, deny, 0, 30 * s, 30 * s, noDelay},
			{90*s - 1, take, 1, deny, 0, 1, 1, noDelay},
			{95 * s, take, 5, pass, 0, noRetry, 60 * s, noDelay},
		}},
		{"a log of 2 per minute that counts denials", with(log(2, m), countDenied), []step{
			{12 * s, take, 1, pass, 1, noRetry, 60 * s, noDelay},
			{24 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{36 * s, take, 1, deny, 0, 48 * s, 60 * s, noDelay},
			{85 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{96*s - 1, take, 1, deny, 0, 49*s + 1, 60 * s, noDelay},
		}},
		{"the same log without counting them", log(2, m), []step{
			{12 * s, take, 1, pass, 1, noRetry, 60 * s, noDelay},
			{24 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{36 * s, take, 1, deny, 0, 36 * s, 48 * s, noDelay},
			{85 * s, take, 1, pass, 1, noRetry, 60 * s, noDelay},
		}},
		{"a histogram as the log", histogram(5, m, 3), []step{
			{0, take, 4, pass, 1, noRetry, 60 * s, noDelay},
			{10 * s, take, 2, deny, 1, 50 * s, 50 * s, noDelay},
			{10 * s, take, 1, pass, 0, noRetry, 60 * s, noDelay},
			{60 * s, take, 5, deny, 4, 10 * s, 10 * s, noDelay},
			{60 * s, take, 6, deny, 4, neverFit, 10 * s, noDelay},
			{60 * s, upTo, 9, pass, 0, noRetry, 60 * s, noDelay},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runTrace(t, one(c.limit), c.steps) })
	}
}
