// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/span"
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
			l.Algorithm = sluice.LeakyBucket{DelayAfter: rapid.Int64Range(0, l.Burst).Draw(t, "delay after")}
		} else {
			l.Debt = rapid.Int64Range(0, 10).Draw(t, "debt")
		}
		if term, err := sluice.CompileLimit("s", l); err == nil && term.Plain {
			return term
		}
	}
}

// takeAny is take and takeWindow by [algo.WordTake].
func (a *wordArray) takeAny(at *uint64, t *sluice.Term, cost, now int64, generation *atomic.Uint64, d *sluice.Decision) bool {
	for {
		word := atomic.LoadUint64(at)
		if word == busy || word == 0 {
			return false
		}
		s := a.stateOf(t, word)
		idle, rem := s.Idle, s.A
		if idle <= now && (a.generation != generation.Load() || idle <= a.doubt) || idle-now > t.Horizon {
			return false
		}
		newIdle, newRem := algo.WordTake(t, idle, rem, now, cost, d)
		var next uint64
		if newIdle == idle && newRem == rem {
			if next = marked(word, d); next == word {
				return true
			}
		} else {
			if !a.inRange(newIdle, newRem) || newIdle <= now {
				return false
			}
			next = a.pack(newIdle, newRem, classOf(word).after(d))
		}
		if atomic.CompareAndSwapUint64(at, word, next) {
			return true
		}
	}
}

// TestTakeEqualsTakeAny: take decides as algo.WordTake does, and leaves the same word, for any
// class and instant. It needs the lock only where it must.
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
			ok := a.take(&short, term, cost, now, &generation, &got)
			if !ok && (cost == 0 || cost > term.Burst || term.Queues || a.idle(short)-now > term.Horizon) {
				if short != long {
					t.Fatalf("%v: take %d leaves %#x to the lock, and writes %#x", term.Limit, cost, long, short)
				}
				continue
			}
			wantOK := a.takeAny(&long, term, cost, now, &generation, &want)
			if ok != wantOK || ok && got != want || short != long {
				t.Fatalf("%v: take %d at %d of idle %d, rem %d, class %d: got %t, %+v, word %#x; want %t, %+v, word %#x",
					term.Limit, cost, now-a.epoch, word>>wordLowBits, word&remMask, classOf(word), ok, got, short, wantOK, want, long)
			}
			now += rapid.Int64Range(0, 2*term.Rate.One.Micros+2).Draw(t, "gap")
		}
	})
}

// drawPlainWindow returns a fixed window whose states are words.
func drawPlainWindow(t *rapid.T) *sluice.Term {
	for {
		l := sluice.Limit{
			Algorithm: sluice.FixedWindow{},
			Quota: rapid.OneOf(
				rapid.Int64Range(1, 5), rapid.SampledFrom([]int64{remMask - 1, remMask, remMask + 1, 1<<wideABits - 1}), rapid.Int64Range(1, 1<<17),
			).Draw(t, "quota"),
			Window: time.Duration(rapid.OneOf(
				rapid.SampledFrom([]int64{1, 1e3, 1e6, 3600e6, span.WideUnit - 1, span.WideUnit, span.WideUnit + 1, span.WideLongest, span.WideLongest + 1, sluice.MaxWindow.Microseconds()}),
				rapid.Int64Range(1, 3600e6), rapid.Int64Range(span.WideUnit, 3*span.WideUnit),
			).Draw(t, "window")) * time.Microsecond,
			Debt: rapid.SampledFrom([]int64{0, 0, 0, 3}).Draw(t, "debt"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "anchor") {
		case 0:
			l.Algorithm = sluice.FixedWindow{OnFirst: true}
		case 1:
			l.Window, l.Algorithm = 0, sluice.FixedWindow{Calendar: sluice.Day, Zone: "Europe/Berlin"}
		}
		if term, err := sluice.CompileLimit("s", l); err == nil && term.Plain {
			return term
		}
	}
}

// TestTakeWindowEqualsTakeAny is [TestTakeEqualsTakeAny] of fixed windows.
func TestTakeWindowEqualsTakeAny(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		term := drawPlainWindow(t)
		var generation atomic.Uint64
		a := &wordArray{epoch: 1e15, generation: uint64(rapid.IntRange(0, 9).Draw(t, "generation") / 9)}
		now := a.epoch + rapid.OneOf(
			rapid.Int64Range(1, 3600e6), rapid.Int64Range(0, wordIdleMax), rapid.Int64Range(wideIdleMax-3*span.WideUnit, wideIdleMax+span.WideUnit), rapid.Just(int64(24*3600e6)),
		).Draw(t, "now")
		count := rapid.OneOf(
			rapid.Int64Range(0, term.Quota+term.Debt), rapid.Int64Range(max(term.Quota-2, 0), term.Quota+term.Debt),
			rapid.Int64Range(0, min(term.Quota+term.Debt, remMask)), rapid.Int64Range(0, min(term.Quota+term.Debt, remMask+2)),
		).Draw(t, "count")
		end := now + rapid.Int64Range(1, term.Micros).Draw(t, "left")
		if term.Wide {
			end = now - now%term.Micros + term.Micros
		}
		word := a.pack(min(end, a.latest(count)), count, class(rapid.IntRange(0, 3).Draw(t, "class")))
		word = rapid.OneOf(rapid.Just(word), rapid.Just(word), rapid.Just(word), rapid.SampledFrom([]uint64{0, busy, word})).Draw(t, "word")
		short, long := word, word
		now += rapid.SampledFrom([]int64{0, 0, 0, 1, -1, term.Micros, -term.Micros, -term.Micros - 3600e6, -term.Micros - 3600e6 - 1, end - now, end - now - 1}).Draw(t, "step")
		for range 4 {
			cost := rapid.OneOf(
				rapid.Just(int64(1)), rapid.Int64Range(0, 3), rapid.Int64Range(1, term.Quota), rapid.Just(term.Quota+1), rapid.Just(int64(sluice.MaxQuota)),
				rapid.Just(max(remMask-count, 0)), rapid.Just(max(remMask+1-count, 0)),
			).Draw(t, "cost")
			var got, want sluice.Decision
			ok := a.takeWindow(&short, term, cost, now, &got)
			if left := a.stateOf(term, short).Idle - now; !ok && (cost == 0 || cost > term.Quota || left <= 0 || left > term.Horizon) {
				if short != long {
					t.Fatalf("%v: take %d leaves %#x to the lock, and writes %#x", term.Limit, cost, long, short)
				}
				continue
			}
			wantOK := a.takeAny(&long, term, cost, now, &generation, &want)
			if ok != wantOK || ok && got != want || short != long {
				t.Fatalf("%v: take %d at %d of %+v, class %d: got %t, %+v, word %#x; want %t, %+v, word %#x",
					term.Limit, cost, now, a.state(word), classOf(word), ok, got, short, wantOK, want, long)
			}
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*term.Micros)).Draw(t, "gap")
		}
	})
}

// TestWideWords: unpacking a packed state returns it, the instant by means of the limit, and
// no word equals busy or the word without a state.
func TestWideWords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		term := drawPlainWindow(t)
		a := &wordArray{epoch: rapid.OneOf(rapid.Int64Range(0, 1<<50), rapid.SampledFrom([]int64{0, span.WideUnit, 1e15})).Draw(t, "epoch")}
		s := algo.State{
			Idle: a.epoch + rapid.OneOf(rapid.Int64Range(1, wideIdleMax), rapid.Int64Range(1, wordIdleMax), rapid.Just(int64(1)), rapid.Just(int64(wideIdleMax))).Draw(t, "idle"),
			A:    rapid.OneOf(rapid.Int64Range(0, term.MostInWord), rapid.Just(term.MostInWord), rapid.Int64Range(0, remMask)).Draw(t, "count"),
		}
		if term.Wide {
			s.Idle += term.Micros - s.Idle%term.Micros
		}
		if !a.inRange(s.Idle, s.A) {
			return
		}
		c := class(rapid.IntRange(0, 3).Draw(t, "class"))
		word := a.pack(s.Idle, s.A, c)
		got := a.stateOf(term, word)
		if got.Idle != s.Idle || got.A != s.A || classOf(word) != c || word == 0 || word == busy || word >= wideMark != (s.A > remMask) {
			t.Fatalf("%v: %+v of class %d is %#x, which is %+v of class %d", term.Limit, s, c, word, got, classOf(word))
		}
		if idle := a.idle(word); idle < s.Idle || idle-s.Idle >= span.WideUnit {
			t.Fatalf("%v: %#x is idle at %d, want %d", term.Limit, word, idle, s.Idle)
		}
		other := &wordArray{epoch: max(a.epoch-rapid.Int64Range(0, 1e12).Draw(t, "earlier"), 0)}
		if other.inRange(s.Idle, s.A) {
			plain := a.state(word)
			if got := other.stateOf(term, other.pack(plain.Idle, plain.A, c)); got.Idle != s.Idle || got.A != s.A {
				t.Fatalf("%v: in another array %+v is %+v", term.Limit, s, got)
			}
		}
	})
}
