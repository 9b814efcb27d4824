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

// A head describes the limit that wrote the state behind it, so that every process can
// read the state. A store compares heads to find out that a limit has been changed. A
// head has no name: the state's key has it. No head is a prefix of another.
//
// A head is a byte, the options if headOptions is set, and the numbers of the limit.
// Options and numbers are varints. The lower three bits of the byte are the algorithm.
const (
	headAlgorithm = 1<<3 - 1
	headBytes     = 1 << 3 // Unit is Bytes
	headDebt      = 1 << 4 // Debt follows
	headBurst     = 1 << 5 // Burst follows, which is not the default
	headOptions   = 1 << 6 // options follow
)

// The options. The first seven take one byte: they are the most frequent ones.
const (
	optionInterval = 1 << iota
	optionConservative
	optionOnFirst
	optionCalendar // a calendar follows in the place of a window
	optionCountDenied
	optionDelayAfter // DelayAfter follows, which is not the default
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

// setOptions sets the fields of l for which no number follows.
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

// head writes a head, or reads one. The bytes are those written so far, or left to read.
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
	*d = time.Duration(n) * time.Microsecond // of 2^53 µs none overflows
}

// limit writes the numbers of l, or reads them.
func (h *head) limit(l *sluice.Limit, first byte, options uint64) {
	h.number(&l.Quota)
	if options&optionCalendar != 0 {
		h.calendar(l, options&optionFrom != 0)
	} else {
		h.micros(&l.Window)
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
			h.number(f.n)
		}
	}
	if options&optionCredit != 0 {
		h.micros(&l.CreditFor)
	}
	if options&optionWarmUp != 0 {
		h.micros(&l.WarmUp)
	}
	switch l.Algorithm {
	case sluice.SlidingCounter:
		typed(h, &l.SubWindows)
	case sluice.SlidingHistogram:
		typed(h, &l.Precision)
	case sluice.Block:
		h.micros(&l.BlockFor)
	case sluice.TokenBucket, sluice.LeakyBucket, sluice.FixedWindow, sluice.SlidingLog: // that is all
	}
}

// typed is number for other types.
func typed[T ~int | ~int64](h *head, p *T) {
	n := int64(*p)
	h.number(&n)
	*p = T(n)
}

// calendar writes the calendar of l, the moment at which its windows begin and its zone,
// or reads them.
func (h *head) calendar(l *sluice.Limit, from bool) {
	days := int64(l.Calendar)<<3 | int64(l.WeekStart)
	h.number(&days)
	l.Calendar, l.WeekStart = sluice.Calendar(days>>3), time.Weekday(days&7)
	if from {
		minutes := int64(l.From.Time / time.Minute)
		typed(h, &l.From.Month)
		typed(h, &l.From.Day)
		h.number(&minutes)
		l.From.Time = time.Duration(minutes) * time.Minute
	}
	h.text(&l.Zone)
}

// appendHead appends the head of l, which is valid and filled in.
func appendHead(b []byte, l *sluice.Limit) []byte {
	first, options := byte(l.Algorithm), optionsOf(l)
	for i, set := range [...]bool{l.Unit == sluice.Bytes, l.Debt != 0, l.Burst != l.WithBurst(0).Filled().Burst, options != 0} {
		if set {
			first |= headBytes << i
		}
	}
	h := head{b: append(b, first)}
	if options != 0 {
		h.b = binary.AppendUvarint(h.b, options)
	}
	limit := *l
	h.limit(&limit, first, options)
	return h.b
}

var errHead = errors.New("the state does not begin with a limit: another program wrote this key")

// parseHead returns the limit of the head with which a state begins, without a name, and
// the length of the head.
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
	l.Algorithm = sluice.Algorithm(first & headAlgorithm)
	if first&headBytes != 0 {
		l.Unit = sluice.Bytes
	}
	setOptions(&l, uint64(options))
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
	if string(appendHead(nil, &t.Limit)) != head {
		return nil, errHead // it has bits that say nothing of such a limit
	}
	return t, nil
}
