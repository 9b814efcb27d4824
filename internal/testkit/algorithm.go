// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import "github.com/sluicegate/sluice"

// Is reports whether l is counted by A.
func Is[A sluice.Algorithm](l sluice.Limit) bool {
	_, ok := l.Filled().Algorithm.(A)
	return ok
}

// Set changes the options of l, which is counted by A from now on.
func Set[A sluice.Algorithm](l *sluice.Limit, change func(*A)) {
	a := options[A](*l)
	change(&a)
	l.Algorithm = a
}

// options returns those of l, or none where it is not counted by A.
func options[A sluice.Algorithm](l sluice.Limit) A {
	a, _ := l.Algorithm.(A)
	return a
}

// Token returns the options of a token bucket, none of another limit.
func Token(l sluice.Limit) sluice.TokenBucket { return options[sluice.TokenBucket](l) }

// Leaky returns the options of a leaky bucket, none of another limit.
func Leaky(l sluice.Limit) sluice.LeakyBucket { return options[sluice.LeakyBucket](l) }

// Fixed returns the options of a fixed window, none of another limit.
func Fixed(l sluice.Limit) sluice.FixedWindow { return options[sluice.FixedWindow](l) }

// Counter returns the options of a sliding counter, none of another limit.
func Counter(l sluice.Limit) sluice.SlidingCounter { return options[sluice.SlidingCounter](l) }

// Histogram returns the options of a sliding histogram, none of another limit.
func Histogram(l sluice.Limit) sluice.SlidingHistogram { return options[sluice.SlidingHistogram](l) }

// Block returns the options of a block, none of another limit.
func Block(l sluice.Limit) sluice.Block { return options[sluice.Block](l) }

// Deficit returns how many units l lacks at its start.
func Deficit(l sluice.Limit) int64 { return Token(l).InitialDeficit + Fixed(l).InitialDeficit }
