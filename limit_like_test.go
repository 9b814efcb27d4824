// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestParseLimitLike: options that a text does not name come from the limit that it
// replaces.
func TestParseLimitLike(t *testing.T) {
	for _, c := range []struct{ name, text, like, want string }{
		{"nothing to be like", "10/min", "", "10/min"},
		{"algorithm", "10/min", "5/min sliding-log", "10/min sliding-log"},
		{"it names the algorithm", "10/min token-bucket", "5/min sliding-log", "10/min"},
		{"it names the same one", "10/min sliding-counter", "5/min sliding-counter strict", "10/min sliding-counter"},
		{"it names a calendar", "10/day calendar UTC", "5/day sliding-log", "10/day fixed-window calendar UTC"},
		{"another window", "10/h", "5/min sliding-log", "10/h sliding-log"},
		{"name, by the window", "10/min", "per-user: 5/min sliding-log", "per-user: 10/min sliding-log"},
		{"name, by the window, of another algorithm", "10/min gcra", "per-user: 5/min sliding-log", "per-user: 10/min"},
		{"no name of another window", "10/h", "per-user: 5/min sliding-log", "10/h sliding-log"},
		{"a name of its own", "mine: 10/min", "per-user: 5/min sliding-log", "mine: 10/min sliding-log"},
		{"bytes of bytes", "10MB/min", "5MB/min sliding-histogram precision 9", "10MB/min sliding-histogram precision 9"},
		{"bytes of requests", "10MB/min", "5/min sliding-log", "10MB/min"},

		{"a block is like none", "20/min block 1h", "per-user: 5/min sliding-log", "20/min block 1h"},
		{"none is like a block", "10/min", "bad: 20/min block 1h", "10/min"},
		{"name of a block", "20/min block 1h", "bad: 5/min block 2h", "bad: 20/min block 1h"},

		{"burst follows the quota", "10/h", "1000/h burst 100", "10/h"},
		{"refill and debt", "10/min burst 3", "5/min interval-refill debt 7", "10/min burst 3 interval-refill debt 7"},
		{"refill by the clock", "10/min burst 3", "5/min aligned-refill", "10/min burst 3 aligned-refill"},
		{"refill of its own", "10/min interval-refill", "5/min aligned-refill", "10/min interval-refill"},
		{"debt of its own", "10/min debt 0", "5/min debt 7", "10/min debt 0"},
		{"debt that does not fit", "65536/min", "5/min sliding-log debt 7", "65536/min sliding-log"},
		{"next-waits, with the debt", "10/min", "5/min debt 7 next-waits", "10/min debt 7 next-waits"},
		{"next-waits of a debt of its own", "10/min debt 3", "5/min debt 7 next-waits", "10/min debt 3 next-waits"},
		{"no next-waits without a debt", "10/min debt 0", "5/min debt 7 next-waits", "10/min debt 0"},
		{"credit", "10/min", "5/min credit 7 credit-for 1h", "10/min credit 7 credit-for 1h"},
		{"credit of its own", "10/min credit 3", "5/min credit 7 credit-for 1h", "10/min credit 3 credit-for 1h"},
		{"credit for as long", "10/min credit-for 1day credit 3", "5/min credit 7 credit-for 1h", "10/min credit 3 credit-for 1day"},
		{"no credit with initial", "10/min initial 2", "5/min credit 7 credit-for 1h", "10/min initial 2"},
		{"initial 0 with next-waits stays", "100/min", "5/min initial 0 debt 3 next-waits", "100/min initial 0 debt 3 next-waits"},
		{"warm-up", "10/min", "5/min warm-up 4s burst 3", "10/min warm-up 4s"},
		{"warm-up of its own", "10/min warm-up 1s", "5/min warm-up 4s", "10/min warm-up 1s"},
		{"a debt that only the burst of a warm-up leaves room for", "5/us", "5/us warm-up 1us debt 316223999999999", "5/us warm-up 1us debt 316223999999999"},
		{"no warm-up beside initial", "10/min initial 0", "5/min warm-up 4s", "10/min initial 0"},
		{"no warm-up beside count-denied", "10/min count-denied", "5/min warm-up 4s", "10/min count-denied"},
		{"initial does not fit a warm-up", "10/min warm-up 1s", "5/min initial 0", "10/min warm-up 1s"},
		{"initial 0 stays", "100/min", "5/min initial 0", "100/min initial 0"},
		{"initial 2 at most", "1/min", "5/min initial 2", "1/min"},
		{"initial of its own", "100/min initial 7", "5/min initial 0", "100/min initial 7"},
		{"a meter", "100/s", "10/s burst 20 leaky-bucket nodelay", "100/s burst 20 leaky-bucket nodelay"},
		{"a meter of another burst", "100/s burst 30", "10/s burst 20 leaky-bucket nodelay", "100/s burst 30 leaky-bucket nodelay"},
		{"a queue", "100/s burst 3", "10/s burst 20 leaky-bucket delay-after 5", "100/s burst 3 leaky-bucket nodelay"},
		{"a queue of its own", "100/s delay-after 2", "10/s burst 20 leaky-bucket nodelay", "100/s burst 20 leaky-bucket delay-after 2"},
		{"anchor", "10/min", "5/min fixed-window anchor first", "10/min fixed-window anchor first"},
		{"calendar day", "10/day", "5/day calendar Asia/Seoul", "10/day fixed-window calendar Asia/Seoul"},
		{"calendar month", "10/month", "5/day calendar Asia/Seoul", "10/month fixed-window calendar Asia/Seoul"},
		{"calendar month of month", "10/month", "m: 5/month calendar UTC", "m: 10/month fixed-window calendar UTC"},
		{"calendar week", "10/week", "5/week calendar UTC week-starts monday", "10/week fixed-window calendar UTC week-starts monday"},
		{"calendar week of its own", "10/week week-starts friday", "5/week calendar UTC week-starts monday", "10/week fixed-window calendar UTC week-starts friday"},
		{"when the month begins", "10/month", "5/month calendar UTC from 17T09:00 initial 2", "10/month fixed-window calendar UTC from 17T09:00 initial 2"},
		{"when it begins, of its own", "10/month from 1T10:00", "5/month calendar UTC from 17T09:00", "10/month fixed-window calendar UTC from 1T10:00"},
		{"a day does not begin on the 17th", "10/day", "5/month calendar UTC from 17T09:00", "10/day fixed-window calendar UTC"},
		{"24h is no calendar day", "10/24h", "5/day calendar Asia/Seoul", "10/day fixed-window"},
		{"no calendar minute", "10/min", "5/day calendar Asia/Seoul", "10/min fixed-window"},
		{"count-denied", "10/min", "5/min sliding-log count-denied", "10/min sliding-log count-denied"},
		{"count-denied of a bucket", "10/min", "5/min count-denied", "10/min count-denied"},
		{"sub-windows", "10/h", "5/min sliding-counter sub-windows 6 strict pre-filled", "10/h sliding-counter sub-windows 6 strict pre-filled"},
		{"sub-windows that do not fit", "10/min", "5/7s sliding-counter sub-windows 7 conservative", "10/min sliding-counter conservative"},
		{"whole", "10/h", "5/min sliding-counter sub-windows 6 whole", "10/h sliding-counter sub-windows 6 whole"},
		{"conservative for whole", "10/h conservative", "5/min sliding-counter sub-windows 6 whole", "10/h sliding-counter sub-windows 6 conservative"},
		{"whole of parts that do not fit", "10/min", "5/7s sliding-counter sub-windows 7 whole", "10/min sliding-counter"},
		{"strict for conservative", "10/min strict", "5/min sliding-counter sub-windows 6 conservative", "10/min sliding-counter sub-windows 6 strict"},

		{"of two, by the window", "10/h", "5/s, 100/h sliding-log count-denied", "10/h sliding-log count-denied"},
		{"of two, by the name", "b: 10/day", "a: 5/s, b: 100/h sliding-log count-denied", "b: 10/day sliding-log count-denied"},
		{"of two, by a name it has by default", "sliding-log.hour: 10/h", "5/s, 100/h sliding-log", "sliding-log.hour: 10/h sliding-log"},
		{"of two alike, neither meant", "10/day", "5/s sliding-log count-denied, 100/h sliding-log", "10/day sliding-log"},
		{"of two of one window", "10/s", "a: 5/s sliding-log, b: 6/s sliding-log", "10/s sliding-log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var like []sluice.Limit
			for text := range strings.SplitSeq(c.like, ", ") {
				if text != "" {
					like = append(like, sluice.MustParseLimit(text))
				}
			}
			got, err := sluice.ParseLimit(c.text, like...)
			if err != nil {
				t.Fatal(err)
			}
			if want := sluice.MustParseLimit(c.want); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestParseLimitLikeSaysWhereAndWhat(t *testing.T) {
	like := []sluice.Limit{sluice.PerMinute(5).WithAlgorithm(sluice.SlidingLog{}), sluice.PerHour(9).WithAlgorithm(sluice.FixedWindow{})}
	for _, c := range []struct {
		text   string
		offset int
		says   string
	}{
		{"10/min burst 20", 7, "burst belongs to token-bucket and leaky-bucket, and the limit in whose place this one stands is counted by sliding-log; leave it out, or write token-bucket"},
		{"10/h strict", 5, "counted by fixed-window; leave it out, or write sliding-counter"},
		{"10/day", 0, `replaces limits counted by fixed-window and sliding-log; name the algorithm of this one, such as "10/day fixed-window"`},
		{"10/day sliding-log burst 20", 19, "not to sliding-log; leave it out or write that algorithm"},
		{"5/month", 0, `such as "5/month fixed-window"`},
	} {
		t.Run(c.text, func(t *testing.T) {
			l, err := sluice.ParseLimit(c.text, like...)
			fault, ok := errors.AsType[*sluice.TextError](err)
			if !ok || l != (sluice.Limit{}) {
				t.Fatalf("got %v, %v, want a *TextError", l, err)
			}
			if fault.Offset != c.offset || !strings.Contains(fault.Problem, c.says) {
				t.Errorf("got offset %d, problem %q\nwant offset %d, problem with %q", fault.Offset, fault.Problem, c.offset, c.says)
			}
		})
	}
}

// TestLikeItself: the quota and window of any limit, read in place of that limit, give the
// limit itself, except for a token bucket's burst and initial level, and for a block, which
// needs a length.
func TestLikeItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits().Filter(func(l sluice.Limit) bool { return !testkit.Is[sluice.Block](l) }).Draw(t, "limit")
		bare := sluice.Limit{Quota: l.Quota, Unit: l.Unit, Window: l.Window, Algorithm: sluice.FixedWindow{Calendar: testkit.Fixed(l).Calendar}}
		text, _, _ := strings.Cut(bare.String(), " ")
		got, err := sluice.ParseLimit(text, l)
		if err != nil {
			t.Fatal(err)
		}
		want := l.Filled()
		if testkit.Is[sluice.TokenBucket](l) {
			want.Burst = l.WithBurst(0).Filled().Burst
			if initial := l.Filled().Burst - testkit.Deficit(l); testkit.Deficit(l) > 0 && testkit.Deficit(got) != max(0, l.Quota-initial) {
				t.Errorf("%q like %q: got %v", text, l, got)
			}
			b := testkit.Token(want)
			b.InitialDeficit, b.Credit, b.CreditFor = testkit.Deficit(got), 0, 0
			if want.WithAlgorithm(b).Validate() != nil {
				want.Debt, b.NextWaits = 0, false // it does not fit the quota's burst
			}
			want.Algorithm = b
			if b.Credit, b.CreditFor = testkit.Token(l).Credit, testkit.Token(l).CreditFor; want.WithAlgorithm(b).Validate() == nil {
				want.Algorithm = b // which fits it
			}
		}
		if got := got.Filled(); got != want {
			t.Errorf("%q like %q: got %v, want %v", text, l, got, want)
		}
	})
}
