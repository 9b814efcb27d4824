// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import "time"

// pace is what is known of one limit: at most left units until then, which are
// sent at least every apart.
type pace struct {
	identity

	left  int64
	said  time.Time // when that was said
	until time.Time
	span  time.Duration // how long until was unavailable when it was said
	every time.Duration

	quota  int64         // of the policy; 0 if unknown
	window time.Duration // likewise
	burst  int64         // likewise

	mentioned time.Time // when the server last did

	returns returns // what of ours comes back, and when

	// blind says that the time is up and nothing is known of the next, or that
	// what was stated is no longer valid: then one call is sent, and the
	// others wait for what its answer says.
	blind bool
}

// state takes in an item of an answer. Calls in flight may not have been
// counted in it. What a late answer says of what is left can only be too much.
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
		// A window that slides is never all empty while it is used: what is left
		// need not last until it would be.
		every = min(every, sustained)
	}
	if !s.Denied && span > 0 {
		span = p.full(span, left)
		p.returns.add(s.At.Add(span)) // by then all that was counted has come back
	}
	spare := max(left-int64(inFlight), 0)
	if late && p.until.After(s.At) {
		p.left = min(p.left, spare)
		return
	}
	p.left, p.every, p.span, p.blind = spare, every, span, false
	p.said, p.until = s.At, s.At.Add(span)
	p.returns.take(s.At) // is in what is left
}

// full returns after how long the limit is fully refilled, of which the server
// has said span, rounded up to seconds: of a bucket that refills one by one it is
// the time that what is gone of the burst takes. Where that is more than rounding,
// the server knows better.
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

// spread returns how far apart n units are within span, in the µs that servers
// count in: any less, and one might not be there yet.
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

// renew adds the refilled units, and starts over when the time is up: with the quota,
// if that is known, or else as before; and after a denial, blindly. So it does
// where requests are still delayed once it is in doubt what was said.
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

// next returns when the next unit may be spent.
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
