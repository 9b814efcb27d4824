// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// A head describes the limit that wrote the state after it, so that every process can
// read the state. A store compares heads to find out whether a limit has changed. A
// head does not hold the limit's name, which is in the key. No head is a prefix of another.
//
// A head is a byte, the options if headOptions is set, and the numbers of the limit.
// Options and numbers are varints. The lower three bits of the byte are the algorithm.
const (
	headAlgorithm = 1<<3 - 1
	headBytes     = 1 << 3 // Unit is Bytes
	headDebt      = 1 << 4 // Debt follows
	headBurst     = 1 << 5 // a Burst other than the default follows
	headOptions   = 1 << 6 // options follow
)

// The options. The first seven, which are the most frequent, take one byte.
const (
	optionInterval = 1 << iota
	optionConservative
	optionOnFirst
	optionCalendar // a calendar follows in place of a window
	optionCountDenied
	optionDelayAfter // a DelayAfter other than the default follows
	optionStrict
	optionDeficit // InitialDeficit follows
	optionPreFilled
	optionNextWaits
	optionAligned
	optionWarmUp // WarmUp follows
	optionCredit // Credit and CreditFor follow
	optionWhole
	optionFrom // From follows the calendar
)

// optionsOf returns the options of t.
func optionsOf(t *sluice.Term) (options uint64) {
	for i, set := range [...]bool{
		t.Refill == sluice.Interval, t.Conservative, t.OnFirst, t.Calendar != sluice.NoCalendar,
		t.CountDenied, t.Kind == compiled.LeakyBucket && t.DelayAfter != 1, t.Strict, t.InitialDeficit != 0, t.PreFilled,
		t.NextWaits, t.Refill == sluice.Aligned, t.WarmUp != 0, t.Credit != 0, t.Whole, t.From != (sluice.Moment{}),
	} {
		if set {
			options |= 1 << i
		}
	}
	return options
}

// algorithms are the algorithms by their number in a head.
var algorithms = [...]sluice.Algorithm{
	compiled.TokenBucket:      sluice.TokenBucket{},
	compiled.LeakyBucket:      sluice.LeakyBucket{},
	compiled.FixedWindow:      sluice.FixedWindow{},
	compiled.SlidingLog:       sluice.SlidingLog{},
	compiled.SlidingCounter:   sluice.SlidingCounter{},
	compiled.SlidingHistogram: sluice.SlidingHistogram{},
	compiled.Block:            sluice.Block{},
}

// head writes or reads a head. b holds the bytes written so far, or those left to read.
type head struct {
	b            []byte
	reading, bad bool
}

func (h *head) number(n *int64) {
	if !h.reading {
		h.b = binary.AppendUvarint(h.b, uint64(*n))
		return
	}
	u, size := binary.Uvarint(h.b)
	if size <= 0 || u > sluice.MaxQuota {
		h.b, h.bad = nil, true
		return
	}
	*n, h.b = int64(u), h.b[size:]
}

func (h *head) numberIf(is bool, n *int64) {
	if is {
		h.number(n)
	}
}

func (h *head) text(s *string) {
	n := int64(len(*s))
	h.number(&n)
	if !h.reading {
		h.b = append(h.b, *s...)
		return
	}
	if n > int64(len(h.b)) {
		n, h.bad = 0, true
	}
	*s, h.b = string(h.b[:n]), h.b[n:]
}

func (h *head) micros(d *time.Duration) {
	n := d.Microseconds()
	h.number(&n)
	*d = time.Duration(n) * time.Microsecond // 2^53 µs do not overflow
}

// limit writes the numbers of l, or reads them with the options.
func (h *head) limit(l *sluice.Limit, first byte, options uint64) {
	h.number(&l.Quota)
	window, _ := l.Algorithm.(sluice.FixedWindow)
	if options&optionCalendar != 0 {
		h.calendar(&window, options&optionFrom != 0)
	} else {
		h.micros(&l.Window)
	}
	h.numberIf(first&headDebt != 0, &l.Debt)
	h.numberIf(first&headBurst != 0, &l.Burst)
	has := func(option uint64) bool { return options&option != 0 }
	switch a := l.Algorithm.(type) {
	case sluice.TokenBucket:
		h.token(&a, has)
		l.Algorithm = a
	case sluice.LeakyBucket:
		h.numberIf(has(optionDelayAfter), &a.DelayAfter)
		l.Algorithm = a
	case sluice.FixedWindow:
		if has(optionOnFirst) {
			window.OnFirst = true
		}
		h.numberIf(has(optionDeficit), &window.InitialDeficit)
		l.Algorithm = window
	case sluice.SlidingCounter:
		a.Conservative, a.Strict, a.Whole, a.PreFilled = has(optionConservative), has(optionStrict), has(optionWhole), has(optionPreFilled)
		typed(h, &a.SubWindows)
		l.Algorithm = a
	case sluice.SlidingHistogram:
		typed(h, &a.Precision)
		l.Algorithm = a
	case sluice.Block:
		h.micros(&a.For)
		l.Algorithm = a
	}
}

// token writes the numbers of a token bucket, or reads them with the options.
func (h *head) token(b *sluice.TokenBucket, has func(option uint64) bool) {
	switch {
	case has(optionInterval):
		b.Refill = sluice.Interval
	case has(optionAligned):
		b.Refill = sluice.Aligned
	}
	b.NextWaits = has(optionNextWaits)
	h.numberIf(has(optionDeficit), &b.InitialDeficit)
	if has(optionCredit) {
		h.number(&b.Credit)
		h.micros(&b.CreditFor)
	}
	if has(optionWarmUp) {
		h.micros(&b.WarmUp)
	}
}

// typed is number for other types.
func typed[T ~int | ~int64](h *head, p *T) {
	n := int64(*p)
	h.number(&n)
	*p = T(n)
}

// calendar writes the calendar of a window, the moment at which it begins and its zone,
// or reads them.
func (h *head) calendar(w *sluice.FixedWindow, from bool) {
	days := int64(w.Calendar)<<3 | int64(w.WeekStart)
	h.number(&days)
	w.Calendar, w.WeekStart = sluice.Calendar(days>>3), time.Weekday(days&7)
	if from {
		minutes := int64(w.From.Time / time.Minute)
		typed(h, &w.From.Month)
		typed(h, &w.From.Day)
		h.number(&minutes)
		w.From.Time = time.Duration(minutes) * time.Minute
	}
	h.text(&w.Zone)
}

// appendHead appends the head of a limit.
func appendHead(b []byte, t *sluice.Term) []byte {
	first, options := byte(t.Kind), optionsOf(t)
	for i, set := range [...]bool{t.Unit == sluice.Bytes, t.Debt != 0, t.Burst != t.WithBurst(0).Filled().Burst, options != 0} {
		if set {
			first |= headBytes << i
		}
	}
	h := head{b: append(b, first)}
	if options != 0 {
		h.b = binary.AppendUvarint(h.b, options)
	}
	l := t.Limit
	h.limit(&l, first, options)
	return h.b
}

var errHead = errors.New("the state does not begin with a limit: another program wrote this key")

// parseHead returns the limit of the head at the start of a state, without a name, and the
// length of the head.
func parseHead(state string) (l sluice.Limit, size int, err error) {
	if state == "" {
		return l, 0, errHead
	}
	first := state[0]
	all := []byte(state[1:min(len(state), 256)]) // no head is longer
	h := head{b: all, reading: true}
	options := int64(0)
	if first&headOptions != 0 {
		h.number(&options)
	}
	if int(first&headAlgorithm) >= len(algorithms) {
		return l, 0, errHead
	}
	l.Algorithm = algorithms[first&headAlgorithm]
	if first&headBytes != 0 {
		l.Unit = sluice.Bytes
	}
	l.CountDenied = options&optionCountDenied != 0
	h.limit(&l, first, uint64(options))
	if h.bad {
		return l, 0, errHead
	}
	return l, 1 + len(all) - len(h.b), nil
}

// compileHead compiles the limit of a head, under a name.
func compileHead(name, head string, l sluice.Limit) (*sluice.Term, error) {
	t, err := sluice.CompileLimit("writer", l.WithName(name))
	if err != nil {
		return nil, fmt.Errorf("the limit that wrote the state: %w", err)
	}
	if string(appendHead(nil, t)) != head {
		return nil, errHead // it has bits that such a limit does not use
	}
	return t, nil
}
