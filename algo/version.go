// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// continuous reports whether t is a bucket with continuous refill.
func continuous(t *sluice.Term) bool { return t.Burst > 0 && t.Refill == sluice.Continuous }

// own reports whether t is the writer of s.
func own(t *sluice.Term, s *State) bool { return s.By == nil || s.By.ID == t.ID }

// writer returns the limit that wrote s, t if By is not set.
func writer(t *sluice.Term, s *State) *sluice.Term {
	if s.By == nil {
		return t
	}
	return s.By
}

// faster reports whether t gives units back faster than w.
func faster(t, w *sluice.Term) bool {
	return span.LessProduct(t.Rate.Num, w.Rate.Den, w.Rate.Num, t.Rate.Den)
}

// convert returns the time that units last at t's rate if they last s at w's rate,
// rounded up by less than 1 µs.
func convert(w, t *sluice.Term, s span.Span) span.Span {
	if s.Micros <= 0 && s.Rem == 0 {
		return span.Span{}
	}
	return w.Rate.Convert(s, t.Rate)
}
