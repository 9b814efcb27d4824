// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/server/internal/outcome"
)

const (
	mostCauses = 64
	longCause  = 200 // bytes
	lately     = 11  // minutes, the current one included
)

// Cause is a cause of refused requests.
type Cause = outcome.Cause

// causes counts refusals by cause. Texts come from rules and the program, never from a client,
// so there are few; those beyond mostCauses recent ones count as one.
type causes struct {
	mu     sync.Mutex
	minute int64 // the current one, since 1970
	of     map[Cause]*refusals
}

type refusals struct {
	total   uint64
	minutes [lately]uint64
}

func (r *refusals) recent() (n uint64) {
	for _, of := range r.minutes {
		n += of
	}
	return n
}

func (c *causes) add(cause Cause) {
	cause.Text = cmp.Or(strings.ToValidUTF8(cause.Text[:min(len(cause.Text), longCause)], ""), "no cause is known")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[Cause]*refusals)
	}
	n := c.of[cause]
	if n == nil && len(c.of) >= mostCauses {
		maps.DeleteFunc(c.of, func(_ Cause, n *refusals) bool { return n.recent() == 0 })
	}
	if n == nil && len(c.of) >= mostCauses {
		cause.Text = "other causes"
		n = c.of[cause]
	}
	if n == nil {
		n = new(refusals)
		c.of[cause] = n
	}
	n.total++
	n.minutes[c.minute%lately]++
}

// turn begins the minute of now.
func (c *causes) turn(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := now.Unix() / 60
	if c.minute == 0 { // earlier counts belong to the first minute
		c.minute = to
		for _, n := range c.of {
			n.minutes = [lately]uint64{}
			n.minutes[to%lately] = n.total
		}
	}
	for i := max(c.minute+1, to-lately+1); i <= to; i++ {
		for _, n := range c.of {
			n.minutes[i%lately] = 0
		}
	}
	c.minute = max(c.minute, to)
}

// Causes returns the causes of refusals, the most frequent recent ones first.
func (t *Tally) Causes() []Cause {
	c := &t.refused
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Cause, 0, len(c.of))
	for cause, n := range c.of {
		cause.Recent, cause.Total = n.recent(), n.total
		all = append(all, cause)
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Recent, a.Recent), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Text, b.Text))
	})
	return all
}
