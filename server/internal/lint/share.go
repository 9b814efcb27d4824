// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
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
