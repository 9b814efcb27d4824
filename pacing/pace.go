// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import "time"

// pace is the state of one limit: at most left units until the instant until, which are sent
// at intervals of at least every.
type pace struct {
	identity

	left  int64
	said  time.Time // when the server stated this
	until time.Time
	span  time.Duration // from said to until
	every time.Duration

	quota  int64         // of the policy; 0 if not known
	window time.Duration // likewise
	burst  int64         // likewise

	mentioned time.Time // when the server last mentioned the limit

	returns returns // units of this client, and when they are refilled

	// blind says that the span has ended and the next state is not known, or that the
	// statement is no longer valid: then one call is sent, and the others wait for its answer.
	blind bool
}

// state records an item of an answer, which may not include calls in flight. In a late answer
// the remaining units can only be too many.
func (p *pace) state(it Item, s Statement, late bool, inFlight int) {
	p.mentioned = s.At
	if it.Quota > 0 && it.Window > 0 {
		p.quota, p.window, p.burst = it.Quota, it.Window, it.Burst
	}
	if !it.Stated {
		return
	}
	left, span := it.Left, it.Span
	if span == 0 {
		span = p.window
	}
	if s.Denied && s.Wait > 0 { // more exact than t
		left, span = 0, s.Wait
	}
	every := spread(span, left)
	if sustained := spread(p.window, p.quota); sustained > 0 {
		// A sliding window in use is never empty, so the remaining units need not last until
		// it would be.
		every = min(every, sustained)
	}
	if !s.Denied && span > 0 {
		span = p.full(span, left)
		p.returns.add(s.At.Add(span)) // by then all counted units are refilled
	}
	spare := max(left-int64(inFlight), 0)
	if late && p.until.After(s.At) {
		p.left = min(p.left, spare)
		return
	}
	p.left, p.every, p.span, p.blind = spare, every, span, false
	p.said, p.until = s.At, s.At.Add(span)
	p.returns.take(s.At) // they are in the remaining units
}

// full returns the time until the limit is full. The server states it as span, rounded up to
// seconds. For a bucket with continuous refill it is the time to refill the missing part of
// the burst. If they differ by more than rounding, the server's is right.
func (p *pace) full(span time.Duration, left int64) time.Duration {
	every, gone := spread(p.window, p.quota), p.burst-left
	if gone <= 0 || every <= 0 || gone > int64(span/every) {
		return span
	}
	if exact := time.Duration(gone) * every; exact > span-time.Second {
		return exact
	}
	return span
}

// spread returns the interval between n units within span, rounded up to the µs in which
// servers count: after less, a unit might be missing.
func spread(span time.Duration, n int64) time.Duration {
	if n <= 0 || span <= 0 {
		return 0
	}
	d := span / time.Duration(n)
	if d*time.Duration(n) < span {
		d++
	}
	if part := d % time.Microsecond; part > 0 {
		d += time.Microsecond - part
	}
	return d
}

// renew adds refilled units. When the time is over it starts again: with the quota if that is
// known, else as before, and after a denial blindly. It also turns blind if requests are still
// delayed at the instant doubt.
func (p *pace) renew(now, doubt time.Time, inFlight int) {
	if now.Before(p.until) && !now.Before(doubt) {
		p.blind = true
		return
	}
	n := p.returns.take(now)
	if now.Before(p.until) {
		if p.left += n; p.quota > 0 {
			p.left = min(p.left, max(p.quota-int64(inFlight), 0))
		}
		return
	}
	switch {
	case p.blind:
	case p.quota > 0:
		p.every = spread(p.window, p.quota)
		p.left = max(p.quota-int64(inFlight), 0)
		p.said, p.until = now, now.Add(p.window)
	case p.every > 0 && p.span > 0:
		p.left = max(int64(p.span/p.every)-int64(inFlight), 0)
		p.said, p.until = now, now.Add(p.span)
	default:
		p.blind = true
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// next returns the earliest time at which the next unit may be spent.
func (p *pace) next(last time.Time) time.Time {
	switch {
	case p.blind:
		return time.Time{}
	case p.left <= 0:
		if at, ok := p.returns.next(); ok {
			return earlier(at, p.until)
		}
		return p.until
	}
	return last.Add(p.every)
}
