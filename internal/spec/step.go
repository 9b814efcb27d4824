// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// Step is one operation of a sequence. The clock first moves by Advance; if that is negative,
// the clock steps back, and a peek at the key ends the sequence. A step names a plan and a key
// of the [World] by their numbers.
type Step struct {
	Advance int64 // µs
	Op      sluice.Op
	Plan    int
	Key     int
	Cost    int64
	More    []Part
	Wait    int64 // µs
	// Of is the step whose receipt a refund gives back: its ID, or Newest or Oldest for a
	// receipt that still holds units.
	Of   int
	Give Share
	// ID identifies a step after others are removed; 0 means its position.
	ID int
	// Asks says that two peeks come first, whose answers must equal that of the step.
	Asks bool
	// Outcomes says that the request has Outcomes.
	Outcomes bool
}

// Part is a further charge of a step.
type Part struct{ Plan, Key int }

// Receipts that a refund may name in place of a step's ID.
const (
	Newest = -1
	Oldest = -2
)

// Share is the part of a receipt's units that is given back.
type Share uint8

// The shares.
const (
	All Share = iota
	One
	Half
)

func (s Share) of(held int64) int64 {
	switch s {
	case One:
		return 1
	case Half:
		return (held + 1) / 2
	default:
		return held
	}
}

// describe writes a step and the store's answer for a reader.
func (w *World) describe(s *Step, at int64, d *sluice.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "+%v\t%v", time.Duration(s.Advance)*time.Microsecond, s.Op)
	switch {
	case s.Op == sluice.OpRefund:
		fmt.Fprintf(&b, " %s of %s", [...]string{"all", "one", "half"}[s.Give], s.receipt())
	case s.Op != sluice.OpReset:
		fmt.Fprintf(&b, " %d", s.Cost)
	}
	if s.Op == sluice.OpReserve || s.Wait > 0 {
		fmt.Fprintf(&b, " within %v", time.Duration(s.Wait)*time.Microsecond)
	}
	fmt.Fprintf(&b, " key %d under [%s]", s.Key, w.Plans[s.Plan])
	if s.Op != sluice.OpRefund {
		for _, m := range s.More {
			fmt.Fprintf(&b, " and key %d under [%s]", m.Key, w.Plans[m.Plan])
		}
	}
	switch {
	case d == nil:
		b.WriteString("\t(not asked)")
	case d.Allowed:
		fmt.Fprintf(&b, "\tat %d: allowed, spent %d, remaining %d", at, d.Spent, d.Remaining)
		if d.Delay > 0 {
			fmt.Fprintf(&b, ", counts at %d, delay %v", d.At, d.Delay)
		}
	case d.TooLarge:
		fmt.Fprintf(&b, "\tat %d: denied for good", at)
	default:
		fmt.Fprintf(&b, "\tat %d: denied for %v, remaining %d", at, d.RetryAfter, d.Remaining)
	}
	return b.String()
}

func (s *Step) receipt() string {
	switch s.Of {
	case Newest:
		return "the newest receipt"
	case Oldest:
		return "the oldest receipt"
	default:
		return fmt.Sprintf("step %d", s.Of)
	}
}
