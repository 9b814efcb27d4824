// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package load is what limiters are pressed with: sequences of keys, and the
// limits that go with them.
package load

import (
	"time"

	"github.com/sluicegate/sluice/internal/bounds"

	"github.com/sluicegate/sluice/bench/peers"
)

// Load is one way to press a limiter.
type Load struct {
	Name  string
	Limit peers.Limit
	// Allowed is the answer to every take, once each key has been taken once.
	Allowed bool
	Warm    func() Keys // each key once
	// Keys draws a sequence. Each goroutine takes its own stream: two that walk
	// one sequence may fall into step, and then each finds in its cache, or in
	// the other's, what the other has just left there.
	Keys func(stream int) Keys
}

const (
	draws = 1 << 20 // length of a sequence; then it starts again
	keys  = 100_000 // of a sequence with more than one
)

// The limits below keep a full bucket within an hour, as those in use do: an
// implementation may take a longer way for numbers out of the ordinary.
var (
	// endless never denies one key, which is in debt all the time.
	endless = peers.Limit{Quota: 1_000_000, Window: time.Second, Burst: 4_200_000_000}
	// roomy never denies a key that is one of many, and a key that is pressed a
	// hundred times a second is in debt all the time.
	roomy = peers.Limit{Quota: 1000, Window: time.Minute, Burst: 50_000}
	// uneven never denies, and leaves the few keys that are pressed most in debt.
	uneven = peers.Limit{Quota: 4000, Window: time.Second, Burst: 16_000_000}
	// quick gives a unit back within 1 µs: whenever a key is taken it is as if
	// never seen, as most keys are of a limit that few clients come near.
	quick = peers.Limit{Quota: 1_000_000, Window: time.Second, Burst: 1_000_000}
	// spent allows one unit an hour.
	spent = peers.Limit{Quota: 1, Window: time.Hour, Burst: 1}
)

// All returns the loads.
func All() []Load {
	one := func() Keys { return Distinct(42, 1) }
	hot := func(int) Keys { return one() }
	every := func() Keys { return Distinct(0, keys) }
	uniform := func(stream int) Keys { return Uniform(keys, draws, stream) }
	zipf := func(stream int) Keys { return Zipf(keys, draws, stream) }
	return []Load{
		{"hot", endless, true, one, hot},
		{"hot-denied", spent, false, one, hot},
		{"uniform", roomy, true, every, uniform},
		{"uniform-idle", quick, true, every, uniform},
		{"uniform-denied", spent, false, every, uniform},
		{"zipf", uneven, true, every, zipf},
	}
}

// Suits reports whether a contender can be pressed with the load: not one
// without keys with many, nor a sliding log, which keeps an entry per unit and
// so has a small quota, with more units of one key than that.
func (l Load) Suits(contender string) bool {
	switch contender {
	case "floor-one-word":
		return l.Name == "hot" || l.Name == "hot-denied"
	case "sluice.sliding-log":
		return l.Limit.Burst <= bounds.MaxLogQuota
	}
	return true
}

// Lasting returns a limit under which a key that has spent one unit is in debt
// for 86.4 s, and so is live for as long as a benchmark lasts. Were the unit
// earned again at once, the key would be idle, and a limiter that
// knows it would hold nothing.
func Lasting() peers.Limit {
	return peers.Limit{Quota: 1000, Window: 24 * time.Hour, Burst: 50_000}
}

// Pressed returns the limit for many goroutines on one key: 10,000 units per
// 100 ms and as much at once.
func Pressed() peers.Limit {
	return peers.Limit{Quota: 10_000, Window: 100 * time.Millisecond, Burst: 10_000}
}

// Redis returns the loads of contenders on Redis. Under them a key that has
// been taken is in debt for as long as a benchmark lasts: were it not, the
// server would spend its time on throwing keys away.
func Redis() []Load {
	return []Load{
		{
			"uniform", Lasting(), true,
			func() Keys { return Distinct(0, keys) },
			func(stream int) Keys { return Uniform(keys, draws, stream) },
		},
		{
			"hot", endless, true,
			func() Keys { return Distinct(42, 1) },
			func(int) Keys { return Distinct(42, 1) },
		},
	}
}
