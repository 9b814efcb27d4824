// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import "github.com/sluicegate/sluice"

// Is reports whether the algorithm of l is A.
func Is[A sluice.Algorithm](l sluice.Limit) bool {
	_, ok := l.Filled().Algorithm.(A)
	return ok
}

// Set makes A the algorithm of l and changes its options.
func Set[A sluice.Algorithm](l *sluice.Limit, change func(*A)) {
	a := options[A](*l)
	change(&a)
	l.Algorithm = a
}

// options returns the options of l, or zero options if its algorithm is not A.
func options[A sluice.Algorithm](l sluice.Limit) A {
	a, _ := l.Algorithm.(A)
	return a
}

// Token returns the options of a token bucket, and zero options for another limit.
func Token(l sluice.Limit) sluice.TokenBucket { return options[sluice.TokenBucket](l) }

// Leaky returns the options of a leaky bucket, and zero options for another limit.
func Leaky(l sluice.Limit) sluice.LeakyBucket { return options[sluice.LeakyBucket](l) }

// Fixed returns the options of a fixed window, and zero options for another limit.
func Fixed(l sluice.Limit) sluice.FixedWindow { return options[sluice.FixedWindow](l) }

// Counter returns the options of a sliding counter, and zero options for another limit.
func Counter(l sluice.Limit) sluice.SlidingCounter { return options[sluice.SlidingCounter](l) }

// Histogram returns the options of a sliding histogram, and zero options for another limit.
func Histogram(l sluice.Limit) sluice.SlidingHistogram { return options[sluice.SlidingHistogram](l) }

// Block returns the options of a block, and zero options for another limit.
func Block(l sluice.Limit) sluice.Block { return options[sluice.Block](l) }

// Deficit returns the initial deficit of l.
func Deficit(l sluice.Limit) int64 { return Token(l).InitialDeficit + Fixed(l).InitialDeficit }
