// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"net/url"
	"slices"
	"sort"
	"strings"
)

// settings are what a block hands down to those within it. Limits are handed
// down as a whole: a block that has one of its own gets none from above.
type settings struct {
	limits *limits
	status string
	dryRun bool
}

// limits are the limit_req, or the limit_conn, of one block.
type limits struct{ uses []*directive }

// location is where requests of a server may go.
type location struct {
	path  string // a prefix or, if exact, all of it
	exact bool
	line  int
	settings

	around *location // the smallest that gets its requests if it is not there; nil: none
	again  bool      // one further out has its settings, and around has not
}

// server reads a block of http, with the servers in it, or of a server.
func (c *converter) server(block []*directive) {
	s := c.inherit(block, settings{status: "503"})
	var servers []*directive
	for _, d := range block {
		if d.name == "server" && d.block != nil {
			servers = append(servers, d)
		}
	}
	if len(servers) == 0 {
		c.locations(block, s, nil)
		return
	}
	for _, d := range servers {
		var hosts []string
		if len(servers) > 1 { // one that is alone gets every request
			if hosts = c.hosts(d); len(hosts) == 0 {
				c.note(0, "servers without a host of their own: their rules apply to all hosts, those of the other servers included")
			}
		}
		c.locations(d.block, c.inherit(d.block, s), hosts)
	}
}

// inherit returns the settings of a block: those from above, but for its own.
func (c *converter) inherit(block []*directive, s settings) settings {
	var own limits
	for _, d := range block {
		switch d.name {
		case c.kind:
			own.uses = append(own.uses, d)
		case c.kind + "_status":
			s.status = d.arg(0)
		case c.kind + "_dry_run":
			s.dryRun = d.arg(0) == "on"
		}
	}
	if len(own.uses) > 0 {
		s.limits = &own
	}
	return s
}

// hosts returns the names of a server as a rule has them.
func (c *converter) hosts(server *directive) (hosts []string) {
	for _, d := range server.block {
		if d.name != "server_name" {
			continue
		}
		for _, n := range d.args {
			n = strings.ToLower(n)
			switch {
			case n == "" || n == "_":
			case strings.HasPrefix(n, "~"), strings.HasSuffix(n, ".*"), strings.ContainsAny(n, "$"):
				c.note(d.line, "server_name %s: a host is a name, or *. and a name; not kept", n)
			case strings.HasPrefix(n, "."):
				hosts = append(hosts, n[1:], "*"+n)
			default:
				hosts = append(hosts, n)
			}
		}
	}
	return hosts
}

// locations makes areas of a server's locations.
func (c *converter) locations(block []*directive, s settings, hosts []string) {
	all := c.flatten(block, s, nil)
	if !slices.ContainsFunc(all, func(l location) bool { return l.path == "/" && !l.exact }) {
		all = append(all, location{path: "/", settings: s})
	}
	nest(all)
	groups := map[settings]*group{}
	of := func(s settings) *group {
		if groups[s] == nil {
			groups[s] = &group{}
		}
		return groups[s]
	}
	var order []settings // those with limits, as they come
	for i := range all {
		l := &all[i]
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
	for _, s := range order {
		c.area(groups[s], s, hosts)
	}
}

// group is what has to do with some settings.
type group struct {
	own    []*location // those that have them
	except []*location // others, directly within one of own
}

// nest finds for every location which is around it. In the order of their paths
// those around one stand before it, so a stack of them is enough.
func nest(all []location) {
	sorted := make([]*location, len(all))
	for i := range all {
		sorted[i] = &all[i]
	}
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.path < b.path || a.path == b.path && !a.exact && b.exact
	})
	var stack []*location
	open := map[settings]int{} // how many of the stack have them
	for _, l := range sorted {
		for len(stack) > 0 && !strings.HasPrefix(l.path, stack[len(stack)-1].path) {
			open[stack[len(stack)-1].settings]--
			stack = stack[:len(stack)-1]
		}
		top := len(stack) - 1
		twice := !l.exact && top >= 0 && stack[top].path == l.path // which nginx refuses
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

// flatten lists the locations of a block and of those within it.
func (c *converter) flatten(block []*directive, s settings, list []location) []location {
	for _, d := range block {
		if d.name != "location" || d.block == nil {
			if d.name == "if" || d.name == "limit_except" {
				list = c.flatten(d.block, s, list)
			}
			continue
		}
		own := c.inherit(d.block, s)
		modifier, path := "", d.arg(0)
		if len(d.args) > 1 {
			modifier, path = d.arg(0), d.arg(1)
		}
		switch {
		case modifier == "~" || modifier == "~*":
			if own.limits != nil || s.limits != nil {
				c.note(d.line, "location %s %s: a path in a rule is no regular expression; its requests are limited as those of the locations around it", modifier, path)
			}
			if own.limits != s.limits && own.limits != nil {
				for _, use := range own.limits.uses {
					c.note(use.line, "%s in location %s %s: not kept", c.kind, modifier, path)
				}
			}
		case strings.HasPrefix(path, "@"):
			if own.limits != s.limits {
				c.note(d.line, "location %s: gets no request from outside; not kept", path)
			}
		case !strings.HasPrefix(path, "/"):
			c.note(d.line, "location %s: a path starts with a slash; not kept", path)
		default:
			list = append(list, location{path: path, exact: modifier == "=", line: d.line, settings: own})
			list = c.flatten(d.block, own, list)
		}
	}
	return list
}

// area is a part of the requests that some limits are about.
type area struct {
	hosts, paths, except []string
	use                  *directive
	settings
}

// area makes areas of the locations that have the same settings: their paths,
// but for other locations within them.
func (c *converter) area(g *group, s settings, hosts []string) {
	a := area{hosts: hosts, settings: s}
	for _, l := range g.own {
		if l.around != nil && l.around.settings == s {
			continue // a part of the one around it
		}
		a.paths = append(a.paths, c.patterns(*l)...)
		if l.again {
			c.note(l.line, "location %s: lies in %s, which is limited otherwise, and that in one that is limited as this is; a rule cannot say so, and %s is not limited here", l.path, l.around.path, l.path)
		}
	}
	for _, l := range g.except {
		a.except = append(a.except, c.patterns(*l)...)
	}
	if slices.Contains(a.paths, "/") {
		a.paths = nil
	}
	for _, use := range s.limits.uses {
		a.use = use
		c.areas = append(c.areas, a)
	}
}

// patterns returns the path patterns of a location.
func (c *converter) patterns(l location) []string {
	path := escape(l.path)
	switch {
	case l.exact:
		return []string{exactly(path)}
	case strings.HasSuffix(path, "/"):
		return []string{path}
	}
	c.note(l.line, "location %s: begins with these letters in nginx, %sx included; the rule is about %s and what lies below it", l.path, l.path, l.path)
	return []string{path, path + "/"}
}

// exactly returns the pattern of a path without what lies below it.
func exactly(path string) string {
	if strings.HasSuffix(path, "/") {
		return path + "{$}"
	}
	return path
}

// escape writes a path so that nothing in it is a wildcard.
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
