// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"errors"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/logentry"
)

// kind is the way in which a script keeps and decides a limit: the folder lua has a file
// for each kind.
type kind uint8

const (
	kindBucket kind = iota + 1
	kindInterval
	kindFixed
	kindCounter
	kindLog
	kindBlock
	kindWarm
	kinds // one more than the number of kinds
)

func kindOf(t *sluice.Term) kind {
	switch t.Kind {
	case compiled.FixedWindow:
		return kindFixed
	case compiled.SlidingCounter:
		return kindCounter
	case compiled.SlidingLog, compiled.SlidingHistogram:
		return kindLog
	case compiled.Block:
		return kindBlock
	default:
		if t.Refill != sluice.Continuous {
			return kindInterval
		}
		if t.WarmUp > 0 {
			return kindWarm
		}
		return kindBucket
	}
}

// formatOf returns the format of the entries of a log or histogram of t.
func formatOf(t *sluice.Term) logentry.Format {
	return logentry.Of(t.Kind == compiled.SlidingHistogram, t.Micros)
}

// remainderBytes returns the number of bytes of a bucket's remainder.
func remainderBytes(t *sluice.Term) int {
	if t.Rate.Den <= 1<<16 {
		return 2
	}
	return 7
}

// Numbers below 2^53 take 7 bytes, most significant first.
func appendInt(b []byte, n int64) []byte {
	var w [8]byte
	binary.BigEndian.PutUint64(w[:], uint64(n))
	return append(b, w[1:]...)
}

// reader reads numbers from a state. Beyond its end it reads zeros and sets past.
type reader struct {
	s    string
	past bool
}

func (r *reader) int(size int) int64 {
	if len(r.s) < size {
		r.s, r.past = "", true
		return 0
	}
	var n int64
	for i := range size {
		n = n<<8 | int64(r.s[i])
	}
	r.s = r.s[size:]
	return n
}

func (r *reader) bool() bool { return r.int(1) == 1 }

var errState = errors.New("the state is cut short or has bytes too many: another program wrote this key")

// formatState appends s, which t wrote, as it is stored after the head.
func formatState(b []byte, t *sluice.Term, s *algo.State) []byte {
	b = appendInt(b, s.Idle)
	reserved := byte(0)
	if s.Reserved {
		reserved = 1
	}
	switch kindOf(t) {
	case kindBucket:
		if remainderBytes(t) == 2 {
			b = binary.BigEndian.AppendUint16(b, uint16(s.A))
		} else {
			b = appendInt(b, s.A)
		}
		if t.Credit > 0 {
			b = appendInt(b, -s.B)
		}
	case kindInterval:
		b = appendInt(b, s.A)
	case kindFixed:
		b = appendInt(append(b, reserved), s.A)
	case kindBlock, kindWarm:
		b = appendInt(appendInt(b, s.A), s.B)
	case kindCounter:
		b = append(b, reserved)
		if t.Behind == 1 {
			b = appendInt(appendInt(b, s.A), s.B)
			break
		}
		for i := range t.Behind + 1 {
			b = appendInt(b, int64(s.Ring[(s.Head+i)%(t.Behind+1)]))
		}
	default:
		b = appendInt(appendInt(append(b, reserved), s.A), s.B)
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(s.Len))
		b = binary.BigEndian.AppendUint32(b, uint32(s.Len))
		size := formatOf(t).Bytes()
		for i := range s.Len {
			var word [8]byte
			binary.BigEndian.PutUint64(word[:], s.Ring[(s.Head+i)%len(s.Ring)])
			b = append(b, word[8-size:]...)
		}
	}
	return b
}

// parseState reads a state of t that formatState has written.
func parseState(t *sluice.Term, body string) (algo.State, error) {
	r := reader{s: body}
	s := algo.State{Idle: r.int(7)}
	switch kindOf(t) {
	case kindBucket:
		s.A = r.int(remainderBytes(t))
		if t.Credit > 0 {
			s.B = -r.int(7)
		}
	case kindInterval:
		s.A = r.int(7)
	case kindFixed:
		s.Reserved, s.A = r.bool(), r.int(7)
	case kindBlock:
		s.A, s.B = r.int(7), r.int(7)
	case kindWarm:
		s.A, s.B = r.int(7), r.int(7)
		if s.Idle > 0 && (s.B < 1 || s.B > t.WarmUp.Microseconds()) {
			return algo.State{}, errState
		}
	case kindCounter:
		s.Reserved = r.bool()
		if t.Behind == 1 {
			s.A, s.B = r.int(7), r.int(7)
			break
		}
		s.Ring, s.Len = make([]uint64, t.Behind+1), t.Behind+1
		for i := range s.Ring {
			n := r.int(7)
			s.Ring[i] = uint64(n)
			s.A += n
		}
	default:
		s.Reserved = r.bool()
		s.A, s.B = r.int(7), r.int(7)
		s.Head, s.Len = int(r.int(4)), int(r.int(4))
		words, size := int(r.int(4)), formatOf(t).Bytes()
		if words > len(r.s)/size || s.Len > words || s.Head >= max(words, 1) {
			return algo.State{}, errState
		}
		s.Ring = make([]uint64, words)
		for i := range s.Ring {
			s.Ring[i] = uint64(r.int(size))
		}
	}
	if r.past || r.s != "" {
		return algo.State{}, errState
	}
	return s, nil
}

// refused is the bit that a script adds to the instant of denied units.
const refused = 1 << 52

// parseSeen reads the part of a log of t that a script has read: a state with the same
// outcome for one operation.
func parseSeen(t *sluice.Term, seen string) (algo.State, error) {
	r, format := reader{s: seen}, formatOf(t)
	s := algo.State{Idle: r.int(7), Reserved: r.bool()}
	for r.s != "" {
		at, units := r.int(7), r.int(7)
		s.A += units
		s.Ring = format.Append(s.Ring, at&^refused, units, at&refused != 0)
	}
	s.Len = len(s.Ring)
	if r.past {
		return algo.State{}, errState
	}
	return s, nil
}
