// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"sync"
	"sync/atomic"
	"time"
)

// Halves of the reported spans. The last hour begins at the start of the half hour before the
// current one, by the clock: it is half an hour to an hour long. The last day likewise has
// half days of UTC.
const (
	HourHalf = 30 * time.Minute
	DayHalf  = 12 * time.Hour
)

// Precisions of [New]: the standard error is 1.04/sqrt(2^precision).
const (
	Fine   = 11 // 2.3 %
	Coarse = 9  // 4.6 %
)

// Kinds of keys that [Keys] counts.
const (
	seen = iota
	denied
	near
	kinds
)

// Keys estimates how many keys were seen, denied, and near a limit in the last hour and the
// last day. The counting methods are safe for concurrent use; the others need one goroutine at
// a time.
type Keys struct {
	precision int
	began     time.Time // time of the first Turn
	now       atomic.Pointer[present]
	before    *part // the half hour before the current one
	today     *part // the current half day, without the current half hour
	yesterday *part // the half day before
}

// part holds the keys of half a span. Its number is the number of halves since 1970; 0 is an
// unused part.
type part struct {
	number    int64
	precision int
	peak      atomic.Uint32 // thousandths of a limit

	mu sync.Mutex // a count may have begun before a Turn
	of [kinds]distinct
}

func newPart(precision int, number int64) *part {
	p := &part{precision: precision, number: number}
	for i := range p.of {
		p.of[i] = newDistinct(precision)
	}
	return p
}

// present is the current half hour.
type present struct {
	*part

	// lately holds hashes that are already counted, each in a place chosen by its bits, with a
	// bit for each kind in place of its lowest bits. Most requests find their key there, and
	// take no lock.
	lately [places]atomic.Uint64
}

const places = 64

// New returns empty Keys.
func New(precision int) *Keys {
	k := &Keys{precision: precision, before: newPart(precision, 0), today: newPart(precision, 0), yesterday: newPart(precision, 0)}
	k.now.Store(&present{part: newPart(precision, 0)})
	return k
}

// Bytes returns the approximate memory of k.
func (k *Keys) Bytes() int {
	n := 8*places + 112
	for _, p := range [...]*part{k.now.Load().part, k.before, k.today, k.yesterday} {
		n += p.bytes()
	}
	return n
}

func (p *part) bytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 96
	for i := range p.of {
		n += p.of[i].bytes(p.precision)
	}
	return n
}

// Precision returns the precision passed to New.
func (k *Keys) Precision() int { return k.precision }

// Ticking reports whether Turn has been called, without which nothing is reported.
func (k *Keys) Ticking() bool { return !k.began.IsZero() }

// Seen counts a key by its hash, whose 64 bits must be evenly spread.
func (k *Keys) Seen(hash uint64) { k.now.Load().add(seen, hash) }

// Denied counts a denied key.
func (k *Keys) Denied(hash uint64) { k.now.Load().add(denied, hash) }

// Used records how many thousandths of a limit a key has used.
func (k *Keys) Used(hash uint64, thousandths uint32) {
	p := k.now.Load()
	if thousandths > nearFrom {
		p.add(near, hash)
	}
	p.reach(thousandths)
}

func (p *present) add(kind int, hash uint64) {
	place, of, bit := &p.lately[hash>>kinds%places], hash>>kinds<<kinds, uint64(1)<<kind
	there := place.Load()
	if there>>kinds<<kinds != of {
		there = of
	}
	if there&bit != 0 {
		return
	}
	p.mu.Lock()
	p.of[kind].add(p.precision, hash)
	p.mu.Unlock()
	place.Store(there | bit) // not before it is counted
}

func (p *part) reach(thousandths uint32) {
	for {
		old := p.peak.Load()
		if old >= thousandths || p.peak.CompareAndSwap(old, thousandths) {
			return
		}
	}
}

// nearFrom is the used part of a limit above which a key is near it: less than a fifth
// remains.
const nearFrom = 800 // thousandths

// Turn makes the halves that contain now the current ones. It should be called about every
// second: until then counts belong to the previous halves. A key counted at that moment may be
// missed.
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
	k.now.Store(&present{part: newPart(k.precision, half)})
	k.today.merge(last.part)
	k.before = last.part
	if halfDay > k.today.number {
		k.today, k.yesterday = newPart(k.precision, halfDay), k.today
	}
}

// merge adds the keys of another part. p must have no other user.
func (p *part) merge(o *part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range p.of {
		p.of[i].merge(p.precision, &o.of[i])
	}
	p.reach(o.peak.Load())
}

// Hour returns the keys of the last hour: since the start of the half hour before the current
// one, or the first Turn.
func (k *Keys) Hour() *Sum { return k.sum(k.now.Load().number, HourHalf, k.before) }

// Day returns the keys of the last day: since the start of the half day before the current
// one, or the first Turn.
func (k *Keys) Day() *Sum { return k.sum(k.today.number, DayHalf, k.today, k.yesterday) }

// sum returns the keys of the current half hour and of those parts that lie in the span.
func (k *Keys) sum(number int64, half time.Duration, parts ...*part) *Sum {
	s := &Sum{half: half, since: time.Unix(0, (number-1)*int64(half)).UTC(), part: newPart(k.precision, number)}
	if s.since.Before(k.began) {
		s.since = k.began.UTC()
	}
	s.merge(k.now.Load().part)
	for _, p := range parts {
		if p.number >= number-1 {
			s.merge(p)
		}
	}
	return s
}
