// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"

	"github.com/sluicegate/sluice/internal/compiled"
)

// options are the parts of an [Algorithm]: its kind, and its options. The options of all
// other algorithms are zero.
type options struct {
	Kind compiled.Kind
	TokenBucket
	LeakyBucket
	FixedWindow
	SlidingCounter
	SlidingHistogram
	Block

	InitialDeficit int64 // of a token bucket or a fixed window
}

// optionsOf returns the parts of an algorithm. ok is false if a is not of this package.
func optionsOf(a Algorithm) (o options, ok bool) {
	switch a := a.(type) {
	case nil:
	case TokenBucket:
		o.TokenBucket, o.InitialDeficit = a, a.InitialDeficit
	case LeakyBucket:
		o.Kind, o.LeakyBucket = compiled.LeakyBucket, a
	case FixedWindow:
		o.Kind, o.FixedWindow, o.InitialDeficit = compiled.FixedWindow, a, a.InitialDeficit
	case SlidingLog:
		o.Kind = compiled.SlidingLog
	case SlidingCounter:
		o.Kind, o.SlidingCounter = compiled.SlidingCounter, a
	case SlidingHistogram:
		o.Kind, o.SlidingHistogram = compiled.SlidingHistogram, a
	case Block:
		o.Kind, o.Block = compiled.Block, a
	default:
		return o, false
	}
	return o, true
}

// assemble returns the algorithm of o's kind and options, nil for a token bucket without
// options.
func (o *options) assemble() Algorithm {
	switch o.Kind {
	case compiled.TokenBucket:
		if o.TokenBucket.InitialDeficit = o.InitialDeficit; o.TokenBucket != (TokenBucket{}) {
			return o.TokenBucket
		}
	case compiled.LeakyBucket:
		return o.LeakyBucket
	case compiled.FixedWindow:
		o.FixedWindow.InitialDeficit = o.InitialDeficit
		return o.FixedWindow
	case compiled.SlidingLog:
		return SlidingLog{}
	case compiled.SlidingCounter:
		return o.SlidingCounter
	case compiled.SlidingHistogram:
		return o.SlidingHistogram
	case compiled.Block:
		return o.Block
	}
	return nil
}

// algorithmName returns the name of an algorithm, or the type of any other value.
func algorithmName(a Algorithm) string {
	if o, ok := optionsOf(a); ok {
		return o.Kind.String()
	}
	return fmt.Sprintf("%T", a)
}
