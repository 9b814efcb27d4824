// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"math"
	"sync/atomic"
	"time"
)

// Halves of the spans that are looked back at. What is told of the last hour goes
// back to the begin of the half hour before this one, by the clock: half an hour
// to an hour. So does the last day, by half days of UTC.
const (
	HourHalf = 30 * time.Minute
	DayHalf  = 12 * time.Hour
)

// Precisions of [New]: the standard error is 1.04/sqrt(2^precision).
const (
	Fine   = 11 // 2.3 %
	Coarse = 9  // 4.6 %
)

// What [Keys] tell apart.
const (
	seen = iota
	denied
	near
	kinds
)

// Keys is about the keys that were seen, denied, and near a limit in the last hour
// and the last day. What counts is safe for concurrent use; Turn, Hour and Day are
// for one goroutine at a time.
type Keys struct {
	precision int
	began     time.Time // the first Turn
	now       atomic.Pointer[part]
	hour, day [2]*part
	today     *part
}

// part is the keys of half a span. Its number is how many came before since 1970; 0
// is one that was never used.
type part struct {
	number int64
	peak   atomic.Uint32 // thousandths of a limit
	of     [kinds]distinct
}

// New returns Keys of nothing.
func New(precision int) *Keys {
	k := &Keys{precision: precision}
	for _, span := range [...]*[2]*part{&k.hour, &k.day} {
		span[0], span[1] = newPart(precision), newPart(precision)
	}
	k.now.Store(k.hour[0])
	k.today = k.day[0]
	return k
}

func newPart(precision int) *part {
	p := new(part)
	for i := range p.of {
		p.of[i] = newDistinct(precision)
	}
	return p
}

// Bytes returns how much memory Keys of a precision take, about.
func Bytes(precision int) int { return 4*kinds*(len(newDistinct(precision))*8+24) + 256 }

// Precision returns that with which k was made.
func (k *Keys) Precision() int { return k.precision }

// Error returns by how much, in percent, at most 1 of 20 estimates are off.
func (k *Keys) Error() float64 { return 196 * 1.04 / math.Sqrt(float64(int(1)<<k.precision)) }

// Ticking reports whether there has been a Turn, without which nothing is told.
func (k *Keys) Ticking() bool { return !k.began.IsZero() }

// Seen counts a key by its hash, which must spread over all 64 bits.
func (k *Keys) Seen(hash uint64) { k.now.Load().of[seen].add(k.precision, hash) }

// Denied counts a key that was denied.
func (k *Keys) Denied(hash uint64) { k.now.Load().of[denied].add(k.precision, hash) }

// Used takes note of how many thousandths of a limit a key has used.
func (k *Keys) Used(hash uint64, thousandths uint32) {
	p := k.now.Load()
	if thousandths > nearFrom {
		p.of[near].add(k.precision, hash)
	}
	p.reach(thousandths)
}

func (p *part) reach(thousandths uint32) {
	for {
		old := p.peak.Load()
		if old >= thousandths || p.peak.CompareAndSwap(old, thousandths) {
			return
		}
	}
}

// nearFrom is how much of a limit a key has used at least that is near it: less
// than a fifth is left.
const nearFrom = 800 // thousandths

// Turn makes the halves in which now lies the present ones. It is to be called every
// second or so: until it is, what comes counts for those before. A key that is
// counted at that very moment may be missed.
func (k *Keys) Turn(now time.Time) {
	last := k.now.Load()
	half, halfDay := now.UnixNano()/int64(HourHalf), now.UnixNano()/int64(DayHalf)
	switch {
	case k.began.IsZero():
		k.began, last.number, k.today.number = now, half, halfDay
		return
	case half <= last.number:
		return // a clock that steps back changes nothing
	}
	k.today.merge(last)
	if halfDay > k.today.number {
		k.today = other(&k.day, k.today)
		k.today.begin(halfDay)
	}
	next := other(&k.hour, last)
	next.begin(half)
	k.now.Store(next)
}

func other(parts *[2]*part, than *part) *part {
	if than == parts[0] {
		return parts[1]
	}
	return parts[0]
}

func (p *part) begin(number int64) {
	for _, d := range p.of {
		d.clear()
	}
	p.peak.Store(0)
	p.number = number
}

func (p *part) merge(o *part) {
	for i := range p.of {
		p.of[i].merge(o.of[i])
	}
	p.reach(o.peak.Load())
}

// Count is how many keys there were since a moment, about.
type Count struct {
	Since              time.Time
	Seen, Denied, Near int64
	Peak               float64 // the greatest share of a limit that one has used, 0 to 1
}

// Hour returns those of the last hour: since the begin of the half hour before this
// one, or the first Turn.
func (k *Keys) Hour() Count {
	now := k.now.Load()
	return k.count(now.number, HourHalf, k.hour[0], k.hour[1])
}

// Day returns those of the last day: since the begin of the half day before this
// one, or the first Turn.
func (k *Keys) Day() Count {
	sum := newPart(k.precision) // this half hour is not in today's yet
	sum.merge(k.today)
	sum.merge(k.now.Load())
	sum.number = k.today.number
	return k.count(sum.number, DayHalf, sum, other(&k.day, k.today))
}

// count returns what is in those of the parts that are of a span.
func (k *Keys) count(number int64, half time.Duration, parts ...*part) Count {
	c := Count{Since: time.Unix(0, (number-1)*int64(half)).UTC()}
	if c.Since.Before(k.began) {
		c.Since = k.began.UTC()
	}
	sum := newPart(k.precision)
	for _, p := range parts {
		if p.number >= number-1 {
			sum.merge(p)
		}
	}
	for i, into := range [kinds]*int64{&c.Seen, &c.Denied, &c.Near} {
		*into = sum.of[i].estimate(k.precision)
	}
	c.Peak = float64(sum.peak.Load()) / 1000
	return c
}
