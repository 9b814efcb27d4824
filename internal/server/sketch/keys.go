// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"sync"
	"sync/atomic"
	"time"
)

// Halves of the spans that are looked back at. What is reported of the last hour goes
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

// What [Keys] distinguish.
const (
	seen = iota
	denied
	near
	kinds
)

// Keys is about the keys that were seen, denied, and near a limit in the last hour
// and the last day. What counts is safe for concurrent use; all else is for one
// goroutine at a time.
type Keys struct {
	precision int
	began     time.Time // the first Turn
	now       atomic.Pointer[present]
	before    *part // the half hour before this one
	today     *part // this half day, without this half hour
	yesterday *part // the half day before
}

// part is the keys of half a span. Its number is how many came before since 1970; 0
// is one that was never used.
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

// present is the half hour that counts.
type present struct {
	*part

	// lately are hashes of which something is counted, each in the place that its bits
	// choose, with a bit for each kind instead of its lowest ones. Most requests
	// find their key there, and take no lock.
	lately [places]atomic.Uint64
}

const places = 64

// New returns Keys of nothing.
func New(precision int) *Keys {
	k := &Keys{precision: precision, before: newPart(precision, 0), today: newPart(precision, 0), yesterday: newPart(precision, 0)}
	k.now.Store(&present{part: newPart(precision, 0)})
	return k
}

// Bytes returns how much memory k takes, about.
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

// Precision returns that with which k was made.
func (k *Keys) Precision() int { return k.precision }

// Ticking reports whether there has been a Turn, without which nothing is reported.
func (k *Keys) Ticking() bool { return !k.began.IsZero() }

// Seen counts a key by its hash, which must spread over all 64 bits.
func (k *Keys) Seen(hash uint64) { k.now.Load().add(seen, hash) }

// Denied counts a key that was denied.
func (k *Keys) Denied(hash uint64) { k.now.Load().add(denied, hash) }

// Used takes note of how many thousandths of a limit a key has used.
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
	k.now.Store(&present{part: newPart(k.precision, half)})
	k.today.merge(last.part)
	k.before = last.part
	if halfDay > k.today.number {
		k.today, k.yesterday = newPart(k.precision, halfDay), k.today
	}
}

// merge adds what is in another to a part that has one user.
func (p *part) merge(o *part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range p.of {
		p.of[i].merge(p.precision, &o.of[i])
	}
	p.reach(o.peak.Load())
}

// Hour returns those of the last hour: since the begin of the half hour before this
// one, or the first Turn.
func (k *Keys) Hour() *Sum { return k.sum(k.now.Load().number, HourHalf, k.before) }

// Day returns those of the last day: since the begin of the half day before this
// one, or the first Turn.
func (k *Keys) Day() *Sum { return k.sum(k.today.number, DayHalf, k.today, k.yesterday) }

// sum returns what is in this half hour, and those of the parts that are of a span.
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
