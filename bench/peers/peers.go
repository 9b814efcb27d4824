// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package peers puts one small adapter in front of each limiter that is
// compared, so that one harness can press them all in the same way.
package peers

import (
	"slices"
	"time"
)

// Limit is what every contender is asked to enforce on each key.
type Limit struct {
	Quota  int64 // units per Window
	Window time.Duration
	Burst  int64 // units that an idle key may spend at once
}

// count is the quota of a contender that has no burst: whichever is larger, so
// that no load that is meant to be allowed is denied.
func (l Limit) count() int64 { return max(l.Quota, l.Burst) }

// interval is how long one unit lasts.
func (l Limit) interval() time.Duration { return l.Window / time.Duration(l.Quota) }

// perSecond is the rate in units per second.
func (l Limit) perSecond() float64 { return float64(l.Quota) / l.Window.Seconds() }

// Limiter is a contender at work. It is safe for concurrent use.
type Limiter interface {
	// Take spends one unit of key and reports whether it fitted. An error
	// means that the contender made no decision.
	Take(key string) (bool, error)
	// Close ends what goroutines the contender runs.
	Close() error
}

// Contender is a limiter that can be compared.
type Contender struct {
	Name   string // as in reports: [a-z0-9.-]
	Counts string // its algorithm, and how it keeps its keys
	// Windowed says that it grants a quota per window, and no burst.
	Windowed bool
	// Module is where it comes from, empty for what this repository holds.
	Module string
	// New makes a Limiter with room for that many keys, where it has a bound.
	New func(l Limit, keys int) (Limiter, error)
}

// All returns the contenders: the floor first, then sluice, then the peers.
func All() []Contender {
	return slices.Concat(floors(), sluices(), keyed(), wrapped())
}

// unclosed is embedded by contenders that run no goroutine.
type unclosed struct{}

func (unclosed) Close() error { return nil }
