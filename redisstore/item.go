// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// item is one limit of a request, with the key of its state.
type item struct {
	*preparedLimit
	charge int // which of the request's charges
	key    string
	// metOthers is set if other limits of its scope and name may have used the key, or if
	// it has credit. Then a balance without debt is replaced by a new one.
	metOthers bool
}

// appendItems appends the limits of c, the n-th charge of a request, and returns the tag
// of their keys.
func (s *Store) appendItems(items []item, c *sluice.Charge, n int) (list []item, tag string) {
	p := s.prepared(c.Plan)
	var room [192]byte
	b := s.keyer.appendTag(room[:0], p.scope, c.Key)
	size := len(b)
	for i := range p.limits {
		key := string(append(b[:size], p.limits[i].name...))
		items = append(items, item{preparedLimit: &p.limits[i], charge: n, key: key, metOthers: p.limits[i].term.Credit > 0 || p.limits[i].series.metOthers.Load()})
		tag = key[:size]
	}
	return items, tag
}

// fresh replaces s, if it has no debt, by a new balance, to which receipts of other limits
// refund nothing.
func (it *item) fresh(s *algo.State, now int64) {
	if it.metOthers && it.term.Burst > 0 && s.Idle <= now {
		*s = algo.State{Since: now}
	}
}

// kindsOf returns the kinds of items, a bit for each.
func kindsOf(items []item) (set uint8) {
	for i := range items {
		set |= 1 << kindOf(items[i].term)
	}
	return set
}

// appendNumbers appends numbers as the scripts take them. All are integers
// below 2^53.
func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

func bit(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// appendArgs appends the numbers of the item's limit. now is an estimate of the server's
// time, around which the edges of a calendar are, and reach is the furthest, in µs, that a
// reservation under another limit of the request may be ahead of it.
func (it *item) appendArgs(b []byte, now, reach int64) []byte {
	t := it.term
	full := t.Quota
	k := kindOf(t)
	switch {
	case t.Burst > 0:
		full = t.Burst
	case k == kindBlock:
		full = t.Full
	}
	window := t.Micros
	if k == kindCounter {
		window = int64(t.Behind) * t.Sub
	}
	b = appendNumbers(b, int64(k), int64(it.charge), window, full, t.Debt, t.Quota, algo.Horizon(t))
	switch k {
	case kindBucket:
		r := &t.Rate
		before := r.Times(t.DelayAfter)
		return appendNumbers(b, it.series.sight(t), bit(it.metOthers),
			r.Num, r.Den, r.One.Micros, r.One.Rem, t.Reach.Micros, t.Reach.Rem, t.Most.Micros, t.Most.Rem,
			before.Micros, before.Rem, bit(t.Queues), t.DelayAfter, int64(remainderBytes(t)), t.Lent, bit(t.CountDenied), t.Credit, t.CreditFor.Microseconds())
	case kindWarm:
		r := &t.Rate
		return appendNumbers(b, bit(it.metOthers), r.Num, r.Den, r.One.Micros, r.One.Rem,
			t.Reach.Micros, t.Reach.Rem, t.Most.Micros, t.Most.Rem, t.Lent, t.WarmUp.Microseconds())
	case kindInterval:
		return appendNumbers(b, it.series.sight(t), bit(it.metOthers), t.Lent, bit(t.Refill == sluice.Aligned), bit(t.CountDenied))
	case kindFixed:
		b = appendNumbers(b, it.series.sight(t), bit(t.CountDenied))
		switch {
		case t.Calendar != sluice.NoCalendar:
			return appendEdges(appendNumbers(b, 2), t, now, reach)
		case t.OnFirst:
			return appendNumbers(b, 1)
		}
		return appendNumbers(b, 0)
	case kindBlock:
		return appendNumbers(b, t.Block.For.Microseconds())
	case kindCounter:
		return appendNumbers(b, it.series.sight(t), t.Sub, int64(t.Behind), bit(t.Conservative || t.Whole), bit(t.Strict), bit(t.CountDenied))
	default:
		format := formatOf(t)
		return appendNumbers(b, int64(t.Precision), bit(t.CountDenied), int64(t.LogWords), int64(format.Bytes()), 1<<format.Low())
	}
}

// appendEdges appends the edges of every calendar window from the one of now to the last
// one in which a state may end.
func appendEdges(b []byte, t *sluice.Term, now, reach int64) []byte {
	start, end := algo.CalendarWindow(t, now)
	b = appendNumbers(b, start, end)
	// A reservation, or a clock that stepped back, reaches no further than this beyond
	// the end of the server's window.
	for last := end + 2*max(algo.Horizon(t), reach); end <= last; {
		_, end = algo.CalendarWindow(t, end)
		b = appendNumbers(b, end)
	}
	return b
}
