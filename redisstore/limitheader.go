// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
)

// A state stands behind its head: the limit that wrote it, with all that it takes
// to read the state under that limit again. So a store that charges a limit which
// has been changed since finds out by comparing heads, and what the old limit still
// counts can be read by a process that has never heard of it. A head holds no name:
// that is in the state's key. No head is the beginning of another.
//
// It is a byte, the options if the byte says so, and numbers, all but the byte in
// varints. The lower three bits of the byte are the algorithm.
const (
	headAlgorithm = 1<<3 - 1
	headBytes     = 1 << 3 // Unit is Bytes
	headDebt      = 1 << 4 // Debt follows
	headBurst     = 1 << 5 // Burst follows, which is not the default
	headOptions   = 1 << 6 // options follow
)

// The options. Those that most limits with any have are in the lower seven bits,
// which take one byte.
const (
	optionInterval = 1 << iota
	optionConservative
	optionOnFirst
	optionCalendar // in the place of a window it follows
	optionCountDenied
	optionDelayAfter // follows, if it is not the default
	optionStrict
	optionDeficit // InitialDeficit follows
	optionPreFilled
	optionNextWaits
	optionAligned
	optionWarmUp // follows
	optionCredit // and CreditFor follow
	optionWhole
	optionFrom // follows the calendar
)

// optionsOf returns the options of l, which is valid and filled in.
func optionsOf(l *sluice.Limit) (options uint64) {
	for i, set := range [...]bool{
		l.Refill == sluice.Interval, l.Conservative, l.Anchor == sluice.OnFirst, l.Calendar != sluice.NoCalendar,
		l.CountDenied, l.Algorithm == sluice.LeakyBucket && l.DelayAfter != 1, l.Strict, l.InitialDeficit != 0, l.PreFilled,
		l.NextWaits, l.Refill == sluice.Aligned, l.WarmUp != 0, l.Credit != 0, l.Whole, l.From != (sluice.Moment{}),
	} {
		if set {
			options |= 1 << i
		}
	}
	return options
}

// setOptions sets what is true or false of l by its options.
func setOptions(l *sluice.Limit, options uint64) {
	has := func(option uint64) bool { return options&option != 0 }
	switch {
	case has(optionInterval):
		l.Refill = sluice.Interval
	case has(optionAligned):
		l.Refill = sluice.Aligned
	}
	if has(optionOnFirst) {
		l.Anchor = sluice.OnFirst
	}
	l.CountDenied, l.NextWaits = has(optionCountDenied), has(optionNextWaits)
	l.Conservative, l.Strict, l.Whole, l.PreFilled = has(optionConservative), has(optionStrict), has(optionWhole), has(optionPreFilled)
}

// headWriter appends to a head, and headReader reads one: both see its numbers in
// the order of [numbersOf].
type (
	headWriter struct{ b []byte }
	headReader struct {
		b   []byte
		bad bool
	}
	headCodec interface {
		number(n *int64)
		text(s *string)
	}
)

func (w *headWriter) number(n *int64) { w.b = binary.AppendUvarint(w.b, uint64(*n)) }

func (w *headWriter) text(s *string) { w.b = append(append(w.b, byte(len(*s))), *s...) }

func (r *headReader) number(n *int64) {
	u, size := binary.Uvarint(r.b)
	if size <= 0 || u > sluice.MaxQuota {
		r.b, r.bad = nil, true
		return
	}
	*n, r.b = int64(u), r.b[size:]
}

func (r *headReader) text(s *string) {
	if len(r.b) == 0 || int(r.b[0]) >= len(r.b) {
		r.b, r.bad = nil, true
		return
	}
	size := 1 + int(r.b[0])
	*s, r.b = string(r.b[1:size]), r.b[size:]
}

// numbersOf has c write or read what stands in the head of l behind its options.
func numbersOf(c headCodec, l *sluice.Limit, first byte, options uint64) {
	micros := func(d *time.Duration) {
		n := d.Microseconds()
		c.number(&n)
		*d = time.Duration(n) * time.Microsecond // of 2^53 µs none overflows
	}
	c.number(&l.Quota)
	if options&optionCalendar != 0 {
		calendarOf(c, l, options&optionFrom != 0)
	} else {
		micros(&l.Window)
	}
	for _, f := range []struct {
		set bool
		n   *int64
	}{
		{first&headDebt != 0, &l.Debt},
		{first&headBurst != 0, &l.Burst},
		{options&optionDelayAfter != 0, &l.DelayAfter},
		{options&optionDeficit != 0, &l.InitialDeficit},
		{options&optionCredit != 0, &l.Credit},
	} {
		if f.set {
			c.number(f.n)
		}
	}
	if options&optionCredit != 0 {
		micros(&l.CreditFor)
	}
	if options&optionWarmUp != 0 {
		micros(&l.WarmUp)
	}
	switch l.Algorithm {
	case sluice.SlidingCounter:
		typed(c, &l.SubWindows)
	case sluice.SlidingHistogram:
		typed(c, &l.Precision)
	case sluice.Block:
		micros(&l.BlockFor)
	case sluice.TokenBucket, sluice.LeakyBucket, sluice.FixedWindow, sluice.SlidingLog: // that is all
	}
}

// typed is of a number of another type.
func typed[T ~int | ~int64](c headCodec, p *T) {
	n := int64(*p)
	c.number(&n)
	*p = T(n)
}

// calendarOf is of the windows of a calendar, the moment at which they begin and their
// zone.
func calendarOf(c headCodec, l *sluice.Limit, from bool) {
	days := int64(l.Calendar)<<3 | int64(l.WeekStart)
	c.number(&days)
	l.Calendar, l.WeekStart = sluice.Calendar(days>>3), time.Weekday(days&7)
	if from {
		minutes := l.From.Time / time.Minute
		typed(c, &l.From.Month)
		typed(c, &l.From.Day)
		typed(c, &minutes)
		l.From.Time = minutes * time.Minute
	}
	c.text(&l.Zone)
}

// appendHead appends the head of l, which is valid and filled in.
func appendHead(b []byte, l *sluice.Limit) []byte {
	first, options := byte(l.Algorithm), optionsOf(l)
	for bit, set := range map[byte]bool{
		headBytes: l.Unit == sluice.Bytes, headDebt: l.Debt != 0,
		headBurst: l.Burst != l.WithBurst(0).Filled().Burst, headOptions: options != 0,
	} {
		if set {
			first |= bit
		}
	}
	w := headWriter{append(b, first)}
	if options != 0 {
		w.b = binary.AppendUvarint(w.b, options)
	}
	limit := *l
	numbersOf(&w, &limit, first, options)
	return w.b
}

var errHead = errors.New("the state does not begin with a limit: another program wrote this key")

// parseHead returns the limit, without a name, in whose head state begins, and how
// long that is.
func parseHead(state string) (l sluice.Limit, size int, err error) {
	if state == "" {
		return l, 0, errHead
	}
	first := state[0]
	r := headReader{b: []byte(state[1:])}
	options := int64(0)
	if first&headOptions != 0 {
		r.number(&options)
	}
	l.Algorithm = sluice.Algorithm(first & headAlgorithm)
	if first&headBytes != 0 {
		l.Unit = sluice.Bytes
	}
	setOptions(&l, uint64(options))
	numbersOf(&r, &l, first, uint64(options))
	if r.bad {
		return l, 0, errHead
	}
	return l, len(state) - len(r.b), nil
}

// compileHead returns the limit that has a head, under a name.
func compileHead(name, head string, l sluice.Limit) (*sluice.Term, error) {
	t, err := sluice.CompileLimit("writer", l.WithName(name))
	if err != nil {
		return nil, fmt.Errorf("the limit that wrote the state: %w", err)
	}
	if string(appendHead(nil, &t.Limit)) != head {
		return nil, errHead // it has bits that say nothing of such a limit
	}
	return t, nil
}
