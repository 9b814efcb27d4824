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

// Every state begins with its head: the limit that wrote it, with all that it
// takes to read the state under that limit again. So a store that charges a
// limit which has been changed since finds out by comparing heads, and what the
// old limit still counts can be read by a process that has never heard of it. A
// head holds no name: that is in the state's key.
//
// It is a byte with the length of the rest, a byte of flags, and what the
// flags say, in varints. The lower three bits are the algorithm.
const (
	headBytes     = 1 << 3 // Unit is Bytes
	headDebt      = 1 << 4 // Debt follows
	headBurst     = 1 << 5 // Burst follows, Strict, Whole, InitialDeficit of a fixed window follows
	headVariant   = 1 << 6 // Refill, DelayAfter follows, Anchor, CountDenied, Conservative, Whole
	headVariant2  = 1 << 7 // InitialDeficit follows, calendar follows, PreFilled
	headAlgorithm = 7

	// headOptions, in the place of an algorithm, is a token bucket with options, or
	// a block, which follow as bits. Nodes that do not know them find no such
	// algorithm, or option, and refuse the state. 7 is none, either: see value.go.
	headOptions = 6

	// headMore in place of the algorithm says that a byte with it follows, and
	// that denials count. Nodes from before there was that refuse it; a log that
	// counts denials is older.
	headMore = 7
)

// The options of a token bucket, and that a limit is none but a block. Behind them
// follow the BlockFor of a block, the WarmUp, and Credit and CreditFor.
const (
	optionNextWaits = 1 << iota
	optionAligned
	optionBlock
	optionWarmUp
	optionCredit
	optionsKnown = 1<<iota - 1
)

// optionsOf returns the options of a token bucket or a block, 0 of any other limit.
func optionsOf(l *sluice.Limit) (options int64) {
	if l.Algorithm == sluice.Block {
		options |= optionBlock
	}
	if l.NextWaits {
		options |= optionNextWaits
	}
	if l.Refill == sluice.Aligned {
		options |= optionAligned
	}
	if l.WarmUp > 0 {
		options |= optionWarmUp
	}
	if l.Credit > 0 {
		options |= optionCredit
	}
	return options
}

// appendHead appends the head of l, which is valid and filled in.
func appendHead(b []byte, l *sluice.Limit) []byte {
	start := len(b)
	b = append(b, 0, 0)
	flags := byte(l.Algorithm)
	flag := func(set bool, f byte) bool {
		if set {
			flags |= f
		}
		return set
	}
	number := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }

	if l.CountDenied && l.Algorithm != sluice.SlidingLog {
		flags = headMore
		b = append(b, byte(l.Algorithm))
	}
	flag(l.Unit == sluice.Bytes, headBytes)
	number(l.Quota)
	if l.Calendar == sluice.NoCalendar {
		number(l.Window.Microseconds())
	}
	if flag(l.Debt != 0, headDebt) {
		number(l.Debt)
	}
	switch l.Algorithm {
	case sluice.TokenBucket:
		if flag(l.Burst != l.WithBurst(0).Filled().Burst, headBurst) {
			number(l.Burst)
		}
		flag(l.Refill == sluice.Interval, headVariant)
		if flag(l.InitialDeficit != 0, headVariant2) {
			number(l.InitialDeficit)
		}
		if options := optionsOf(l); flag(options != 0, headOptions) {
			number(options)
		}
		if l.WarmUp > 0 {
			number(l.WarmUp.Microseconds())
		}
		if l.Credit > 0 {
			number(l.Credit)
			number(l.CreditFor.Microseconds())
		}
	case sluice.LeakyBucket:
		if flag(l.Burst != 1, headBurst) {
			number(l.Burst)
		}
		if flag(l.DelayAfter != 1, headVariant) {
			number(l.DelayAfter)
		}
	case sluice.FixedWindow:
		flag(l.Anchor == sluice.OnFirst, headVariant)
		// Nodes from before there were these refuse a fixed window with a Burst,
		// and a calendar of so high a number.
		if flag(l.InitialDeficit != 0, headBurst) {
			number(l.InitialDeficit)
		}
		if flag(l.Calendar != sluice.NoCalendar, headVariant2) {
			b = appendCalendar(b, l)
		}
	case sluice.SlidingLog:
		flag(l.CountDenied, headVariant)
	case sluice.SlidingCounter:
		// Both flags say Whole: nodes that know only either refuse the state.
		flag(l.Conservative || l.Whole, headVariant)
		// No number follows: nodes from before there was Strict look for one,
		// miss it, and refuse the state where they would decide otherwise.
		flag(l.Strict || l.Whole, headBurst)
		flag(l.PreFilled, headVariant2)
		number(int64(l.SubWindows))
	case sluice.SlidingHistogram:
		number(int64(l.Precision))
	case sluice.Block: // whose number is headOptions
		number(optionsOf(l))
		number(l.BlockFor.Microseconds())
	}
	b[start], b[start+1] = byte(len(b)-start-1), flags
	return b
}

// headFrom says, in the byte of a calendar, that the Moment of its windows
// follows.
const headFrom = 1 << 7

func appendCalendar(b []byte, l *sluice.Limit) []byte {
	first := byte(l.Calendar)<<3 | byte(l.WeekStart)
	if m := l.From; m != (sluice.Moment{}) {
		b = append(b, first|headFrom, byte(m.Month), byte(m.Day))
		b = binary.AppendUvarint(b, uint64(m.Time/time.Minute))
	} else {
		b = append(b, first)
	}
	return append(b, l.Zone...)
}

// parseCalendar reads what appendCalendar has written, which is not empty.
func parseCalendar(l *sluice.Limit, b []byte) (ok bool) {
	first := b[0]
	l.Calendar, l.WeekStart, b = sluice.Calendar(first&^headFrom>>3), time.Weekday(first&7), b[1:]
	if first&headFrom != 0 {
		if len(b) < 3 {
			return false
		}
		minutes, k := binary.Uvarint(b[2:])
		if k <= 0 || minutes >= 24*60 {
			return false
		}
		l.From = sluice.Moment{Month: time.Month(b[0]), Day: int(b[1]), Time: time.Duration(minutes) * time.Minute}
		b = b[2+k:]
	}
	l.Zone = string(b)
	return true
}

var errHead = errors.New("the state does not begin with a limit: another program wrote this key")

// parseHead returns the limit that wrote a state, under that name, and how
// long the head is.
func parseHead(name, state string) (*sluice.Term, int, error) {
	if len(state) < 2 || len(state) < int(state[0])+1 || state[0] < 1 {
		return nil, 0, errHead
	}
	size := int(state[0]) + 1
	flags, rest := state[1], []byte(state[2:size])
	l := sluice.Limit{Name: name, Algorithm: sluice.Algorithm(flags & headAlgorithm)}
	options := flags&headAlgorithm == headOptions
	if options {
		l.Algorithm = sluice.TokenBucket
	}
	bad := false
	if l.Algorithm == headMore {
		if len(rest) == 0 || rest[0] >= headOptions {
			return nil, 0, errHead
		}
		l.Algorithm, l.CountDenied, rest = sluice.Algorithm(rest[0]), true, rest[1:]
	}
	micros := func(n int64) time.Duration {
		return time.Duration(min(n, sluice.MaxWindow.Microseconds()+1)) * time.Microsecond
	}
	number := func() int64 {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > sluice.MaxQuota {
			bad = true
			return 0
		}
		rest = rest[k:]
		return int64(n)
	}
	variant, variant2 := flags&headVariant != 0, flags&headVariant2 != 0
	calendar := l.Algorithm == sluice.FixedWindow && variant2
	if flags&headBytes != 0 {
		l.Unit = sluice.Bytes
	}
	l.Quota = number()
	if !calendar {
		l.Window = micros(number())
	}
	if flags&headDebt != 0 {
		l.Debt = number()
	}
	if flags&headBurst != 0 && l.Algorithm != sluice.SlidingCounter && l.Algorithm != sluice.FixedWindow {
		l.Burst = number()
	}
	switch l.Algorithm {
	case sluice.TokenBucket:
		if variant {
			l.Refill = sluice.Interval
		}
		if variant2 {
			l.InitialDeficit = number()
		}
		if options {
			set := number()
			l.NextWaits = set&optionNextWaits != 0
			if set&optionAligned != 0 {
				bad = bad || variant
				l.Refill = sluice.Aligned
			}
			bad = bad || set == 0 || set&^optionsKnown != 0
			if set&optionWarmUp != 0 {
				l.WarmUp = micros(number())
				bad = bad || l.WarmUp == 0
			}
			if set&optionCredit != 0 {
				l.Credit, l.CreditFor = number(), micros(number())
			}
			if set&optionBlock != 0 {
				bad = bad || flags != headOptions || set != optionBlock
				l.Algorithm, l.BlockFor = sluice.Block, micros(number())
			}
		}
	case sluice.LeakyBucket:
		if variant {
			l.DelayAfter = number()
		}
	case sluice.FixedWindow:
		if variant {
			l.Anchor = sluice.OnFirst
		}
		if flags&headBurst != 0 {
			l.InitialDeficit = number()
		}
		if calendar && len(rest) > 0 {
			bad = bad || !parseCalendar(&l, rest)
			rest = nil
		}
	case sluice.SlidingLog:
		l.CountDenied = variant
	case sluice.SlidingCounter:
		rounds := flags&headBurst != 0
		l.Conservative, l.Strict, l.Whole, l.PreFilled = variant && !rounds, rounds && !variant, variant && rounds, variant2
		l.SubWindows = int(number())
	case sluice.SlidingHistogram:
		l.Precision = int(number())
	case sluice.Block: // is found by its option
	}
	if bad || len(rest) > 0 {
		return nil, 0, errHead
	}
	// A limit from before the two were bounded together wrote less than it may.
	l.Debt = min(l.Debt, sluice.MaxQuota-max(l.Quota, l.Burst))
	t, err := sluice.CompileLimit("writer", l)
	if err != nil {
		return nil, 0, fmt.Errorf("the limit that wrote the state: %w", err)
	}
	return t, size, nil
}
