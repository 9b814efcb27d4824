// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

// drawPlain returns a limit under which a take looks at one word.
func drawPlain(t *rapid.T) *sluice.Term {
	const hour = int64(3600 * 1e6)
	for {
		l := sluice.Limit{
			Quota: rapid.OneOf(
				rapid.Int64Range(1, 10), rapid.SampledFrom([]int64{3, 7, 1000, 65_535, 65_536, sluice.MaxQuota}), rapid.Int64Range(1, 1<<17),
			).Draw(t, "quota"),
			Window: time.Duration(rapid.OneOf(
				rapid.SampledFrom([]int64{1, 1e6, 60e6, hour, 24 * hour, 366 * 24 * hour}), rapid.Int64Range(1, 100*hour),
			).Draw(t, "window")) * time.Microsecond,
			Burst: rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1<<40)).Draw(t, "burst"),
		}
		if rapid.Bool().Draw(t, "leaky") {
			l.Algorithm, l.DelayAfter = sluice.LeakyBucket, rapid.Int64Range(0, l.Burst).Draw(t, "delay after")
		} else {
			l.Debt = rapid.Int64Range(0, 10).Draw(t, "debt")
		}
		if term, err := sluice.CompileLimit("s", l); err == nil && term.Plain {
			return term
		}
	}
}

// TestTakeEqualsTakeAny: the short way decides as the one by algo.WordTake, and leaves the
// same word, of whatever class, at whatever instant.
func TestTakeEqualsTakeAny(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		term := drawPlain(t)
		var generation atomic.Uint64
		a := &wordArray{epoch: 1e15, generation: uint64(rapid.IntRange(0, 9).Draw(t, "generation") / 9)}
		idle := rapid.OneOf(
			rapid.Int64Range(1, 1e6), rapid.Int64Range(1, max(term.Most.Ceil(), 1)), rapid.Int64Range(1, wordIdleMax),
			rapid.SampledFrom([]int64{1, wordIdleMax, 24 * 3600 * 1e6}),
		).Draw(t, "idle")
		word := a.pack(a.epoch+idle, rapid.Int64Range(0, term.Rate.Den-1).Draw(t, "rem"), class(rapid.IntRange(0, 3).Draw(t, "class")))
		word = rapid.OneOf(rapid.Just(word), rapid.Just(word), rapid.Just(word), rapid.SampledFrom([]uint64{0, busy, word})).Draw(t, "word")
		short, long := word, word
		now := a.epoch + idle - rapid.OneOf(
			rapid.Int64Range(-3, 3), rapid.Int64Range(0, term.Reach.Ceil()+1), rapid.Int64Range(-idle, idle),
			rapid.SampledFrom([]int64{term.Horizon - 1, term.Horizon, term.Horizon + 1, term.Most.Ceil(), term.Reach.Micros, term.Reach.Micros - term.Rate.One.Micros}),
		).Draw(t, "owed")
		for range 4 {
			cost := rapid.OneOf(
				rapid.Just(int64(1)), rapid.Int64Range(0, 3), rapid.Int64Range(1, term.Burst), rapid.Just(term.Burst+1), rapid.Just(int64(sluice.MaxQuota)),
			).Draw(t, "cost")
			var got, want sluice.Decision
			ok, wantOK := a.take(&short, term, cost, now, &generation, &got), a.takeAny(&long, term, cost, now, &generation, &want)
			if ok != wantOK || ok && got != want || short != long {
				t.Fatalf("%v: take %d at %d of idle %d, rem %d, class %d: got %t, %+v, word %#x; want %t, %+v, word %#x",
					term.Limit, cost, now-a.epoch, word>>wordLowBits, word&remMask, classOf(word), ok, got, short, wantOK, want, long)
			}
			now += rapid.Int64Range(0, 2*term.Rate.One.Micros+2).Draw(t, "gap")
		}
	})
}
