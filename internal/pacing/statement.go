// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// paramBurst is the parameter of RateLimit-Policy that shows how many units a
// bucket holds, if not its quota.
const paramBurst = "sluice-burst"

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// Bounds of what is read of an answer. A field that exceeds them is ignored.
const (
	maxFieldBytes = 8 << 10
	maxNameBytes  = 512 // of a limit and its partition
	maxItems      = 16  // limits
	maxParams     = 16  // of each
	// maxSeconds is the longest wait that is accepted.
	maxSeconds = int64(sluice.MaxWindow / time.Second)
)

// Statement is what an answer says of the limits.
type Statement struct {
	At     time.Time     // when it came
	Cached bool          // it was meant for another call; the rest is empty
	Denied bool          // the call may be sent again later
	Silent bool          // it says nothing of limits, nor that there are none
	Wait   time.Duration // before which nothing is to be sent; 0 if it does not say
	Items  []Item        // in no order
}

// identity distinguishes the limits of an answer.
type identity struct{ Name, Partition string }

// Item is what is said of one limit.
type Item struct {
	identity
	Stated bool          // Left and Span are known
	Other  bool          // it counts something else than requests; the rest is empty
	Left   int64         // units
	Span   time.Duration // 0: the window
	Quota  int64         // units; 0: unknown
	Window time.Duration // 0: unknown
	Burst  int64         // units of a bucket whose units come back one by one; 0: unknown
}

func (s *Statement) mentions(id identity) bool {
	return slices.ContainsFunc(s.Items, func(it Item) bool { return it.identity == id })
}

// members returns the items of a field, none if it is malformed. One whose name
// is too long to be remembered is left out.
func members(lines []string) []member {
	all, _ := parseList(lines) // malformed: as if not there
	return slices.DeleteFunc(all, func(m member) bool { id := m.identity(); return len(id.Name)+len(id.Partition) > maxNameBytes })
}

// Draft11 reads the lines of RateLimit-Policy and of RateLimit, as
// draft-ietf-httpapi-ratelimit-headers-11 has them. Items without the parameter
// that they must have are left out, as are those that count something else
// than requests.
func (s *Statement) Draft11(policy, limit []string) {
	policies := members(policy)
	for _, m := range policies {
		it := Item{identity: m.identity()}
		if q, ok := m.integer("q"); ok && q > 0 {
			it.Quota = q
		}
		if w, ok := m.integer("w"); ok && w > 0 {
			it.Window = time.Duration(min(w, maxSeconds)) * time.Second
		}
		if b, ok := m.integer(paramBurst); ok && b > 0 {
			it.Burst = b
		}
		if it.Other = !m.requests(); it.Other || it.Window == 0 {
			it.Quota, it.Window, it.Burst = 0, 0, 0
		}
		s.Items = append(s.Items, it)
	}
	for _, m := range members(limit) {
		r, ok := m.integer("r")
		if !ok || r < 0 {
			continue
		}
		it := s.item(m.identity())
		if !counts(policies, m) {
			continue
		}
		t, ok := m.integer("t")
		if ok && t >= 0 {
			it.Span = time.Duration(min(t, maxSeconds)) * time.Second
		}
		it.Left, it.Stated = r, it.Span > 0 || it.Window > 0
	}
}

// counts reports whether the limit m counts requests: its policy says so.
func counts(policies []member, m member) bool {
	i := slices.IndexFunc(policies, func(p member) bool { return p.identity() == m.identity() })
	return i < 0 || policies[i].requests()
}

// item returns that of a limit, made if need be.
func (s *Statement) item(id identity) *Item {
	i := slices.IndexFunc(s.Items, func(it Item) bool { return it.identity == id })
	if i < 0 {
		i, s.Items = len(s.Items), append(s.Items, Item{identity: id})
	}
	return &s.Items[i]
}

// State takes in that a limit of that name, which counts calls, has so many units
// left for a time. Neither is negative.
func (s *Statement) State(name string, left int64, span time.Duration) {
	it := s.item(identity{Name: name})
	it.Left, it.Stated = min(left, maxInteger), true
	it.Span = min(span, sluice.MaxWindow)
}

// Seconds reads a non-negative number of them, as [Number] does. One longer than is
// accepted counts as the longest.
func Seconds(text string) (time.Duration, bool) {
	n, ok := Number(text)
	return time.Duration(min(n, float64(maxSeconds))*float64(time.Second) + 0.5), ok // to the nearest ns
}

// Number reads digits, with or without a decimal point. One too large for a float64
// is infinite.
func Number(text string) (float64, bool) {
	if len(text) > maxFieldBytes || strings.Trim(text, "0123456789.") != "" {
		return 0, false // such as a sign, an exponent or a name
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}
