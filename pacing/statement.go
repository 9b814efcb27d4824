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
	"github.com/sluicegate/sluice/internal/structured"
)

// paramBurst is the parameter of RateLimit-Policy for the burst of a bucket, if that is not
// its quota.
const paramBurst = "sluice-burst"

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// Bounds on the parts of an answer. A field that exceeds them is ignored.
const (
	maxNumberBytes = 8 << 10
	maxNameBytes   = 512                   // of a limit and its partition
	maxItems       = structured.MaxMembers // limits of an answer
	// maxSeconds is the longest accepted wait.
	maxSeconds = int64(sluice.MaxWindow / time.Second)
)

// Statement is the content of an answer about limits. It is a value, for one goroutine.
type Statement struct {
	At     time.Time     // when it came
	Cached bool          // the answer was meant for another call; all else is empty
	Denied bool          // the call may be sent again later
	Silent bool          // it names no limits, and may omit existing ones
	Wait   time.Duration // no call may be sent before; 0 if not stated
	Items  []Item        // in no order
}

// identity distinguishes the limits of an answer.
type identity struct{ Name, Partition string }

// Item is the statement about one limit.
type Item struct {
	Name      string        // of the limit
	Partition string        // of its budget: any bytes; empty: there is one budget
	Stated    bool          // Left and Span are known
	Other     bool          // the limit does not count requests; all else is empty
	Left      int64         // units
	Span      time.Duration // 0: the window
	Quota     int64         // units; 0: unknown
	Window    time.Duration // 0: unknown
	Burst     int64         // units, of a bucket with continuous refill; 0: unknown
}

func itemOf(id identity) Item { return Item{Name: id.Name, Partition: id.Partition} }

func (it *Item) identity() identity { return identity{it.Name, it.Partition} }

// identityOf returns the identity of a member's limit.
func identityOf(m *structured.Member) identity {
	if p, ok := m.Param("pk"); ok && p.Kind == 'b' {
		return identity{m.Name, p.Text}
	}
	return identity{Name: m.Name}
}

// ofRequests reports whether a member's limit counts requests, as it does without a unit. The
// draft spells the unit in two ways.
func ofRequests(m *structured.Member) bool {
	p, ok := m.Param("qu")
	return !ok || p.Kind == 's' && (p.Text == "requests" || p.Text == "request")
}

func (s *Statement) mentions(id identity) bool {
	return slices.ContainsFunc(s.Items, func(it Item) bool { return it.identity() == id })
}

// members returns the items of a field, none if it is malformed. An item whose name is too long
// is left out.
func members(lines []string) []structured.Member {
	all, _ := structured.ParseList(lines) // a malformed field counts as missing
	return slices.DeleteFunc(all, func(m structured.Member) bool {
		id := identityOf(&m)
		return len(id.Name)+len(id.Partition) > maxNameBytes
	})
}

// Draft11 reads the lines of RateLimit-Policy and of RateLimit, in the format of
// draft-ietf-httpapi-ratelimit-headers-11. It omits items without their required parameter,
// and items that do not count requests.
func (s *Statement) Draft11(policy, limit []string) {
	policies := members(policy)
	for _, m := range policies {
		it := itemOf(identityOf(&m))
		if q, ok := m.Integer("q"); ok && q > 0 {
			it.Quota = q
		}
		if w, ok := m.Integer("w"); ok && w > 0 {
			it.Window = time.Duration(min(w, maxSeconds)) * time.Second
		}
		if b, ok := m.Integer(paramBurst); ok && b > 0 {
			it.Burst = b
		}
		if it.Other = !ofRequests(&m); it.Other || it.Window == 0 {
			it.Quota, it.Window, it.Burst = 0, 0, 0
		}
		s.Items = append(s.Items, it)
	}
	for _, m := range members(limit) {
		r, ok := m.Integer("r")
		if !ok || r < 0 {
			continue
		}
		it := s.item(identityOf(&m))
		if !counts(policies, m) {
			continue
		}
		t, ok := m.Integer("t")
		if ok && t >= 0 {
			it.Span = time.Duration(min(t, maxSeconds)) * time.Second
		}
		it.Left, it.Stated = r, it.Span > 0 || it.Window > 0
	}
}

// counts reports whether the limit m counts requests, by its policy.
func counts(policies []structured.Member, m structured.Member) bool {
	i := slices.IndexFunc(policies, func(p structured.Member) bool { return identityOf(&p) == identityOf(&m) })
	return i < 0 || ofRequests(&policies[i])
}

// item returns the item of a limit, and adds it if it is missing.
func (s *Statement) item(id identity) *Item {
	i := slices.IndexFunc(s.Items, func(it Item) bool { return it.identity() == id })
	if i < 0 {
		i, s.Items = len(s.Items), append(s.Items, itemOf(id))
	}
	return &s.Items[i]
}

// State records that the limit with that name, which counts calls, has left units for span.
// Neither is negative.
func (s *Statement) State(name string, left int64, span time.Duration) {
	it := s.item(identity{Name: name})
	it.Left, it.Stated = min(left, maxInteger), true
	it.Span = min(span, sluice.MaxWindow)
}

// Seconds reads a non-negative number of seconds, as [Number] does, and caps it at the longest
// accepted wait.
func Seconds(text string) (time.Duration, bool) {
	n, ok := Number(text)
	return time.Duration(min(n, float64(maxSeconds))*float64(time.Second) + 0.5), ok // to the nearest ns
}

// Number reads digits, with or without a decimal point. A number too large for a float64 is
// infinite.
func Number(text string) (float64, bool) {
	if len(text) > maxNumberBytes || strings.Trim(text, "0123456789.") != "" {
		return 0, false // such as a sign, an exponent or a name
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}
