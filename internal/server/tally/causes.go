// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostCauses = 64
	longCause  = 200 // bytes
	causesKeep = 10 * time.Minute
)

// Cause is why requests were refused, and how many of late.
type Cause struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
	Recent uint64 `json:"recent"` // in the last 10 to 20 minutes
	Total  uint64 `json:"total"`
}

// causes counts refusals by their cause. Texts are of rules and of the program, never of
// a client, so there are few; those beyond mostCauses count as one.
type causes struct {
	mu    sync.Mutex
	began time.Time // of the present 10 minutes
	of    map[Cause]*refusals
}

type refusals struct{ total, before, last uint64 } // the last two at the turns before

func (c *causes) add(cause Cause) {
	cause.Text = cmp.Or(strings.ToValidUTF8(cause.Text[:min(len(cause.Text), longCause)], ""), "no cause is known")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[Cause]*refusals)
	}
	n := c.of[cause]
	if n == nil && len(c.of) >= mostCauses {
		cause.Text = "other causes"
		n = c.of[cause]
	}
	if n == nil {
		n = new(refusals)
		c.of[cause] = n
	}
	n.total++
}

func (c *causes) turn(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.began) < causesKeep {
		return
	}
	c.began = now
	for _, n := range c.of {
		n.before, n.last = n.last, n.total
	}
}

// Causes returns why requests were refused, the most frequent of late first.
func (t *Tally) Causes() []Cause {
	c := &t.refused
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Cause, 0, len(c.of))
	for cause, n := range c.of {
		cause.Recent, cause.Total = n.total-n.before, n.total
		all = append(all, cause)
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Recent, a.Recent), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Text, b.Text))
	})
	return all
}
