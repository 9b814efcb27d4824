// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
)

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
