// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// A word is wide if its A takes more than 16 bits. Its five upper bits are all set, unlike
// those of any other word. Below are idle in units of [span.WideUnit], rounded up, the upper
// bits of A, the class, and the lower bits of A. The instant is up to half a second late.
// The limit that wrote the word has aligned windows of half a second or more, from which
// stateOf computes the exact instant.
const (
	wideMark     = 31 << 59
	wideABits    = 33
	wideHigh     = wideABits - remBits
	wideTimeBits = 59 - wideAt
	wideUnits    = 1<<wideTimeBits - 2 // all ones is busy
	wideIdleMax  = (wideUnits - 1) * span.WideUnit
	wideHighAt   = wordLowBits
	wideAt       = wideHighAt + wideHigh
)

func (a *wordArray) wideIdle(word uint64) int64 {
	return (a.epoch/span.WideUnit + int64(word>>wideAt&(1<<wideTimeBits-1))) * span.WideUnit
}

func wideA(word uint64) int64 {
	return int64(word>>wideHighAt&(1<<wideHigh-1)<<remBits | word&remMask)
}

// latest returns the latest idle instant of a word whose A is count.
func (a *wordArray) latest(count int64) int64 {
	if count > remMask {
		return a.epoch + wideIdleMax
	}
	return a.epoch + wordIdleMax
}

func (a *wordArray) packWide(idle, count int64, c class) uint64 {
	units := (idle+span.WideUnit-1)/span.WideUnit - a.epoch/span.WideUnit
	return wideMark | uint64(min(max(units, 1), wideUnits))<<wideAt | uint64(count)>>remBits<<wideHighAt | uint64(c)<<remBits | uint64(count&remMask)
}

// takeWindow is [wordArray.take] for a fixed window.
func (a *wordArray) takeWindow(at *uint64, t *sluice.Term, cost, now int64, d *sluice.Decision) bool {
	if cost == 0 || cost > t.Quota {
		return false
	}
	if classOf(atomic.LoadUint64(at)) != denied {
		d.Allowed, d.Spent = true, cost
	}
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
	for {
		word := atomic.LoadUint64(at)
		wide := word >= wideMark
		left, count := a.epoch+int64(word>>wordLowBits)-now, int64(word&remMask)
		if wide {
			left, count = windowEnd(t, a.wideIdle(word))-now, wideA(word)
		}
		if left <= 0 || left > t.Horizon || word+1 <= 1 { // idle, the clock stepped back, no state, or busy
			return false
		}
		room := t.Quota - count
		d.ResetAfter = time.Duration(left) * time.Microsecond
		if cost > room {
			if word&wordShielded == 0 && !atomic.CompareAndSwapUint64(at, word, withClass(word, denied)) {
				continue
			}
			setAllowed(d, false, cost)
			d.Remaining = max(room, 0) // overwrites that of a failed swap
			d.RetryAfter = min(d.ResetAfter, sluice.MaxRetryAfter)
			return true
		}
		c := classOf(word)
		if c != kept {
			c = used
		}
		var next uint64
		switch count += cost; {
		case count <= remMask:
			next = word>>wordLowBits<<wordLowBits | uint64(c)<<remBits | uint64(count)
		case !wide && !a.inRange(now+left, count):
			return false
		default:
			next = a.packWide(now+left, count, c)
		}
		setAllowed(d, true, cost)
		d.Remaining = room - cost
		if atomic.CompareAndSwapUint64(at, word, next) {
			return true
		}
	}
}
