// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"net/url"
	"slices"
	"sort"
	"strings"
)

// group makes areas from a server's spots.
func (c *converter) group(s *server) {
	if len(s.hosts) == 0 && !s.open {
		return // it gets no request that a rule could match
	}
	nest(s.spots)
	groups := map[settings]*group{}
	of := func(s settings) *group {
		if groups[s] == nil {
			groups[s] = &group{}
		}
		return groups[s]
	}
	var order []settings // those with limits, in order
	for i := range s.spots {
		l := &s.spots[i]
		g := of(l.settings)
		if len(g.own) == 0 && l.limits != nil {
			order = append(order, l.settings)
		}
		g.own = append(g.own, l)
		if l.around != nil && l.around.settings != l.settings {
			inner := of(l.around.settings)
			inner.except = append(inner.except, l)
		}
	}
	for _, set := range order {
		s.limited = true
		c.area(groups[set], set, s.hosts)
		for _, o := range groups[set].own {
			c.realIP(o.at)
		}
	}
	for _, l := range s.patterns {
		c.realIP(l)
	}
}

// group holds the spots of one group of settings.
type group struct {
	own    []*spot // those with these settings
	except []*spot // others, directly within one of own
}

// nest sets the enclosing location of every location. In the order of paths an enclosing
// location comes first, so a stack is enough.
func nest(all []spot) {
	sorted := make([]*spot, len(all))
	for i := range all {
		sorted[i] = &all[i]
	}
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.path < b.path || a.path == b.path && !a.exact && b.exact
	})
	var stack []*spot
	open := map[settings]int{} // how often they are on the stack
	for _, l := range sorted {
		for len(stack) > 0 && !strings.HasPrefix(l.path, stack[len(stack)-1].path) {
			open[stack[len(stack)-1].settings]--
			stack = stack[:len(stack)-1]
		}
		top := len(stack) - 1
		twice := !l.exact && top >= 0 && stack[top].path == l.path // nginx refuses this
		if twice {
			top--
		}
		if top >= 0 {
			l.around = stack[top]
			l.again = l.around.settings != l.settings && open[l.settings] > 0
		}
		if !l.exact && !twice {
			stack = append(stack, l)
			open[l.settings]++
		}
	}
}

// area is a part of the requests, with the limits that apply to it.
type area struct {
	hosts, paths, except []string
	use                  *directive
	settings
}

// area makes an area from the locations with the same settings: their paths, without other
// locations within them.
func (c *converter) area(g *group, s settings, hosts []string) {
	a := area{hosts: hosts, settings: s}
	for _, l := range g.own {
		if l.around != nil && l.around.settings == s {
			continue // a part of the enclosing area
		}
		a.paths = append(a.paths, c.patterns(*l)...)
		if l.again {
			c.note(l.d, "%v: lies in %s, which has other limits, within a location with the limits of this one; a rule cannot express that, and %s is not limited here", l.at, l.around.path, l.path)
		}
	}
	for _, l := range g.except {
		a.except = append(a.except, c.patterns(*l)...)
	}
	if slices.Contains(a.paths, "/") {
		a.paths = nil
	}
	for _, use := range s.uses(c.kind) {
		a.use = use
		c.areas = append(c.areas, a)
	}
}

// patterns returns the path patterns of a location.
func (c *converter) patterns(l spot) []string {
	path := escape(l.path)
	switch {
	case l.exact:
		return []string{exactly(path)}
	case strings.HasSuffix(path, "/"):
		return []string{path}
	}
	c.note(l.d, "%v: begins with these letters in nginx, %sx included; here %s and what lies below it is meant", l.at, l.path, l.path)
	return []string{path, path + "/"}
}

// exactly returns the pattern of a path without the paths below it.
func exactly(path string) string {
	if strings.HasSuffix(path, "/") {
		return path + "{$}"
	}
	return path
}

// escape writes a path without wildcards.
func escape(path string) string {
	parts := strings.Split(path, "/")
	kept := parts[:0]
	for i, p := range parts {
		if i == 0 || i == len(parts)-1 || p != "" { // nginx merges doubled slashes, too
			kept = append(kept, url.PathEscape(p))
		}
	}
	return strings.Join(kept, "/")
}
