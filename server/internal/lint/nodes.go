// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/policy"
)

// ruleShares describes what a rule with failure local admits while the store is unavailable.
func ruleShares(c *config.Config, r *policy.Rule) (lines []string) {
	var limits []sluice.Limit
	slots := int64(0)
	for i := range r.Levels {
		l := &r.Levels[i]
		for _, limit := range l.Limits {
			f := r.Counted(limit.Limit)
			if r.Cost.Afterwards() {
				f.Debt = 0 // nothing is admitted into debt
			}
			limits = append(limits, f)
			if limit.Grace != nil { // requests above the soft limit are admitted
				limits = append(limits, r.Counted(*limit.Grace))
			}
		}
		if l.InFlight != nil {
			slots = l.InFlight.Cap
		}
	}
	return shares(c, r.Cost, limits, slots)
}

// shares describes what nodes admit while the store is unavailable, for limits under a cost
// and a number of slots.
func shares(c *config.Config, cost policy.Cost, limits []sluice.Limit, slots int64) (lines []string) {
	const away = "if the store is unavailable: "
	switch {
	case c.Store.Redis == "":
		return []string{away + "each process limits by itself"}
	case c.Nodes <= 1:
		return []string{away + "each node limits by its share, the limit divided by the nodes last seen alive"}
	}
	for _, l := range limits {
		s, name, l := l.Share(int(c.Nodes)), l.Name, l.Filled()
		s.Name = name
		if cost.Units > s.Full() {
			lines = append(lines, fmt.Sprintf("%s%v on each of %d nodes, where no request fits that costs %d: each gets 503", away, s, c.Nodes, cost.Units))
			continue
		}
		units, window := algo.Bound(s, l.Window), amount.Length(l.Window)
		if w, _ := l.Algorithm.(sluice.FixedWindow); w.Calendar != sluice.NoCalendar {
			units, window = s.Quota+s.Debt, "calendar "+w.Calendar.String()
		}
		lines = append(lines, fmt.Sprintf("%s%v on each of %d nodes, together at most %s in any %s",
			away, s, c.Nodes, inUnits(cost, amount.Of(c.Nodes*units, l.Unit == sluice.Bytes)), window))
	}
	if slots > 0 {
		lines = append(lines, fmt.Sprintf("%sat most %s at once on each of %d nodes", away, amount.Of(max(slots/c.Nodes, 1), false), c.Nodes))
	}
	return lines
}

// nodesHints hints at rules and listeners whose limits are divided by an unknown number of
// nodes.
func nodesHints(c *config.Config) []Hint {
	line := 0
	for i := range len(c.Policy.Rules()) {
		if r := &c.Policy.Rules()[i]; line == 0 && r.Failure == sluice.FailLocal && !r.Shadow {
			line = c.Line(i)
		}
	}
	for i := range c.Listen {
		if at := &c.Listen[i]; line == 0 && at.Limits.Failure == sluice.FailLocal {
			line = at.Line
		}
	}
	if line == 0 || c.Store.Redis == "" || c.Nodes > 0 {
		return nil
	}
	return []Hint{{c.File, line, "failure: local divides limits by the nodes last seen alive, and a node that starts while the store is unavailable has seen none; write nodes: N, how many share the store"}}
}

// someNodes is the number of nodes for which the cost of a lease is stated if the terms have
// none.
const someNodes = 4

// leaseWords describes the cost of leasing limits.
func leaseWords(t *sluice.LeaseTerms, prefix string, limits []policy.Limit) (lines []string) {
	costs, err := leaseCosts(t, limits)
	if err != nil {
		return []string{prefix + "leased: " + err.Error()} // a policy has excluded this
	}
	for i, s := range costs {
		lines = append(lines, fmt.Sprintf("%sleased, %v: %v", prefix, limits[i].Limit, s))
	}
	return lines
}

// leaseCosts returns the cost of leasing limits together, for each of them.
func leaseCosts(t *sluice.LeaseTerms, limits []policy.Limit) ([]algo.Shortfall, error) {
	hard := make([]sluice.Limit, len(limits))
	for i := range hard {
		hard[i] = limits[i].Limit
	}
	plan, err := sluice.Compile("lease", hard...)
	if err != nil {
		return nil, err
	}
	return algo.LeaseCost(plan, *t, cmp.Or(t.Nodes, someNodes))
}

// unleased warns of a lease that saves little or nothing.
func unleased(c *config.Config, i int) (texts []string) {
	r := &c.Policy.Rules()[i]
	if r.Lease == nil {
		return nil
	}
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if c.Store.Redis == "" {
		add("nothing is leased, as the store is in this process; leave out the lease, or write a store that nodes share")
	}
	if r.Levels[0].InFlight != nil {
		add("requests in flight are counted by the store, each when it comes and when it goes; leave out the lease, or put in_flight into a rule of its own that matches less")
	}
	if costs, err := leaseCosts(r.Lease, r.Levels[0].Limits); err == nil && costs[0].Held == 0 {
		add("the limits are too small for leases of more than a unit, and others save nothing; leave out the lease, or write its units")
	}
	var m policy.Matches
	c.Policy.Match(c.Policy.Example(i).Attributes(), &m)
	for k := range m.Len() {
		other := &c.Policy.Rules()[m.At(k)]
		switch {
		case m.At(k) == i:
		case !other.Shadow && !r.Shadow:
			add("what rule %q matches, too, is charged to both by the store, all or none, and not leased; narrow what they match", other.Name)
		case other.Lease == nil:
			add("of what rule %q matches, too, the store is asked each time all the same; lease both, or narrow what they match", other.Name)
		}
	}
	return texts
}
