// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package history keeps the outcomes of requests over time, in rings of fixed size. It reads
// counters that only grow, and does no work for a request.
package history

import (
	"math"
	"slices"
	"time"
)

// Counts are the outcomes of requests. Each request is in one of the first eight, the verdicts
// of package policy.
type Counts struct {
	Allowed    uint64 `json:"allowed"`
	Warned     uint64 `json:"warned"`
	Delayed    uint64 `json:"delayed"`
	Denied     uint64 `json:"denied"`
	Refused    uint64 `json:"refused"`     // 400, 401 and 403
	Failed     uint64 `json:"failed"`      // 503: the store failed, or the queue is full
	FailedOpen uint64 `json:"failed_open"` // passed without a limit, as the store failed
	Abandoned  uint64 `json:"abandoned"`   // the client left before the decision

	WouldDeny uint64 `json:"would_deny"` // of all: a shadow rule or a candidate would have denied them
	Degraded  uint64 `json:"degraded"`   // of all: decided without the store
	// UpstreamErrors are those passed on with a 5xx or an incomplete response.
	UpstreamErrors uint64 `json:"upstream_errors"`
}

// kinds is the number of Counts' fields.
const kinds = 11

func fieldsOf(c *Counts) [kinds]*uint64 {
	return [kinds]*uint64{
		&c.Allowed, &c.Warned, &c.Delayed, &c.Denied, &c.Refused, &c.Failed, &c.FailedOpen, &c.Abandoned, &c.WouldDeny, &c.Degraded, &c.UpstreamErrors,
	}
}

func (c Counts) all() (n [kinds]uint64) {
	for i, field := range fieldsOf(&c) {
		n[i] = *field
	}
	return n
}

func countsOf(n [kinds]uint64) (c Counts) {
	for i, field := range fieldsOf(&c) {
		*field = n[i]
	}
	return c
}

// Max returns the largest count.
func (c Counts) Max() uint64 {
	n := c.all()
	return slices.Max(n[:])
}

// Passed returns how many requests were passed on.
func (c Counts) Passed() uint64 { return c.Allowed + c.Warned + c.Delayed + c.FailedOpen }

// Requests returns how many requests there were.
func (c Counts) Requests() uint64 {
	return c.Passed() + c.Denied + c.Refused + c.Failed + c.Abandoned
}

// IsZero reports whether nothing was counted.
func (c Counts) IsZero() bool { return c == Counts{} }

// Since returns the increase from before to c. It is zero for a count that became smaller, as
// a part of the sources is gone.
func (c Counts) Since(before Counts) Counts {
	now, was := c.all(), before.all()
	for i := range now {
		now[i] -= min(was[i], now[i])
	}
	return countsOf(now)
}

// Plus returns the sum.
func (c Counts) Plus(more Counts) Counts {
	n, m := c.all(), more.all()
	for i := range n {
		n[i] += m[i]
	}
	return countsOf(n)
}

// Series holds the counts in each step of a span, oldest first; the last step is still
// running. A list of zeros is left out.
type Series struct {
	Step           int       `json:"step"` // seconds
	From           time.Time `json:"from"` // start of the first step
	Steps          int       `json:"steps"`
	Allowed        []uint32  `json:"allowed,omitempty"`
	Warned         []uint32  `json:"warned,omitempty"`
	Delayed        []uint32  `json:"delayed,omitempty"`
	Denied         []uint32  `json:"denied,omitempty"`
	Refused        []uint32  `json:"refused,omitempty"`
	Failed         []uint32  `json:"failed,omitempty"`
	FailedOpen     []uint32  `json:"failed_open,omitempty"`
	Abandoned      []uint32  `json:"abandoned,omitempty"`
	WouldDeny      []uint32  `json:"would_deny,omitempty"`
	Degraded       []uint32  `json:"degraded,omitempty"`
	UpstreamErrors []uint32  `json:"upstream_errors,omitempty"`
}

// Sum returns the counts of all steps.
func (s *Series) Sum() Counts { return s.SumSince(time.Time{}) }

// SumSince returns the counts of the steps that end after since.
func (s *Series) SumSince(since time.Time) Counts {
	var n [kinds]uint64
	first := 0
	if s.Step > 0 && since.After(s.From) {
		first = int(since.Sub(s.From) / (time.Duration(s.Step) * time.Second))
	}
	for i, list := range s.lists() {
		for _, v := range (*list)[min(first, len(*list)):] {
			n[i] += uint64(v)
		}
	}
	return countsOf(n)
}

// ring is a number of steps of time; at is the newest.
type ring struct {
	step  time.Duration
	cells [][kinds]uint32
	at    int64 // number of the newest step since 1970
	since int64 // the first recorded step
}

// move makes the step of now the newest. Steps in between are empty. After a clock that
// stepped back, later counts go to the newest step.
func (r *ring) move(now time.Time) {
	to := now.UnixNano() / int64(r.step)
	switch {
	case r.since == 0:
		r.at, r.since = to, to
	case to <= r.at:
		return
	}
	n := int64(len(r.cells))
	for i := max(r.at+1, to-n+1); i <= to; i++ {
		r.cells[i%n] = [kinds]uint32{}
	}
	r.at = to
	r.since = max(r.since, to-n+1)
}

func (r *ring) add(n [kinds]uint64) {
	cell := &r.cells[r.at%int64(len(r.cells))]
	for i := range n {
		cell[i] = uint32(min(uint64(cell[i])+n[i], math.MaxUint32))
	}
}

// series returns the recorded steps.
func (r *ring) series() Series {
	s := Series{Step: int(r.step / time.Second)}
	if r.since == 0 {
		return s
	}
	s.From = time.Unix(0, r.since*int64(r.step)).UTC()
	s.Steps = int(r.at - r.since + 1)
	lists := s.lists()
	for i := range s.Steps {
		cell := &r.cells[(r.since+int64(i))%int64(len(r.cells))]
		for k, v := range cell {
			if v == 0 {
				continue
			}
			if *lists[k] == nil {
				*lists[k] = make([]uint32, s.Steps)
			}
			(*lists[k])[i] = v
		}
	}
	return s
}

// Span is the length and precision of a [History].
type Span struct {
	Step  time.Duration // whole seconds
	Steps int
}

// Spans of the histories of all requests, and of the requests under a rule.
var (
	// TotalFine is the recent history of all requests.
	TotalFine = Span{time.Second, 600}
	// TotalCoarse is their longer history.
	TotalCoarse = Span{time.Minute, 1440}
	// RuleFine is the recent history of the requests under a rule.
	RuleFine = Span{5 * time.Second, 120}
	// RuleCoarse is their longer history.
	RuleCoarse = Span{10 * time.Minute, 144}
)

// History holds counts over time, finer for recent times than for earlier ones. It is not safe
// for concurrent use.
type History struct {
	fine, coarse ring
	last         Counts
}

// New returns an empty History of the increases from before on.
func New(fine, coarse Span, before Counts) *History {
	return &History{
		last:   before,
		fine:   ring{step: fine.Step, cells: make([][kinds]uint32, fine.Steps)},
		coarse: ring{step: coarse.Step, cells: make([][kinds]uint32, coarse.Steps)},
	}
}

// Record records the total counts at now: the increase since the last call counts in the step
// of now. It takes well below a microsecond.
func (h *History) Record(now time.Time, total Counts) {
	n := total.Since(h.last).all()
	h.last = total
	for _, r := range [...]*ring{&h.fine, &h.coarse} {
		r.move(now)
		r.add(n)
	}
}

// Bytes returns the approximate memory of a History.
func (h *History) Bytes() int { return 4*kinds*(len(h.fine.cells)+len(h.coarse.cells)) + 192 }

// Fine returns the finer, shorter series.
func (h *History) Fine() Series { return h.fine.series() }

// Coarse returns the coarser, longer series.
func (h *History) Coarse() Series { return h.coarse.series() }

// Denials are the denials of a rule in the last hour; its numbers are lower bounds.
type Denials struct {
	Total uint64
	// Keys are lower bounds of the denials of each key, largest first, for the keys kept of
	// each level.
	Keys []uint64
	// Rescued is how many of the rule's denials each candidate would have allowed.
	Rescued map[string]uint64
	// Unstated is the number of responses without the header field of their cost.
	Unstated uint64
}

func (s *Series) lists() [kinds]*[]uint32 {
	return [kinds]*[]uint32{
		&s.Allowed, &s.Warned, &s.Delayed, &s.Denied, &s.Refused, &s.Failed, &s.FailedOpen, &s.Abandoned, &s.WouldDeny, &s.Degraded, &s.UpstreamErrors,
	}
}

// Sound reports whether a series from another process is nil, or valid with no more than most
// steps.
func (s *Series) Sound(most int) bool {
	if s == nil {
		return true
	}
	if s.Step < 1 || s.Step > 86400 || s.Steps < 0 || s.Steps > most || s.From.Unix() < 0 || s.From.Unix() > 1<<40 || s.From.Unix()%int64(s.Step) != 0 {
		return false
	}
	for _, list := range s.lists() {
		if *list != nil && len(*list) != s.Steps {
			return false
		}
	}
	return true
}

// Add adds the counts of another series at the same times. Its counts before and after s are
// left out, and all of them if o is nil or its steps have another length.
func (s *Series) Add(o *Series) {
	if o == nil || s.Step != o.Step {
		return
	}
	by := int(o.From.Unix()-s.From.Unix()) / s.Step // both begin at whole steps
	to := s.lists()
	for k, from := range o.lists() {
		for i, n := range *from {
			at := i + by
			if n == 0 || at < 0 || at >= s.Steps {
				continue
			}
			if *to[k] == nil {
				*to[k] = make([]uint32, s.Steps)
			}
			cell := &(*to[k])[at]
			*cell = uint32(min(uint64(*cell)+uint64(n), math.MaxUint32))
		}
	}
}

// Empty returns a series of p without counts that ends with the step of now.
func (p Span) Empty(now time.Time) *Series {
	step := int64(p.Step / time.Second)
	return &Series{Step: int(step), Steps: p.Steps, From: time.Unix((now.Unix()/step-int64(p.Steps)+1)*step, 0).UTC()}
}
