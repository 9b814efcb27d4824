// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"regexp"
	"slices"
	"strings"
)

// settings are the limits of a request when nginx checks limits. The zero value is for a
// request that ends before.
type settings struct {
	limits *directive // the first of a block; uses returns the others too; nil: none
	block  *block     // the block of limits
	status string
	dryRun bool
}

// uses returns the limits.
func (s settings) uses(kind string) []*directive {
	if s.limits == nil {
		return nil
	}
	return all(s.block.list, kind)
}

// settings returns the settings in effect in a location.
func (c *converter) settings(l *location) settings {
	for b := &l.block; b != nil; b = b.around {
		if own := all(b.list, c.kind); len(own) > 0 {
			return settings{own[0], b, l.value(c.kind+"_status", "503"), l.value(c.kind+"_dry_run", "off") == "on"}
		}
	}
	return settings{}
}

// spot is a part of the paths of a server, and the limits of its requests.
type spot struct {
	path  string // a prefix or, if exact, the whole path
	exact bool
	at    *location
	d     *directive // the directive that causes it
	settings

	around *spot // the smallest spot that contains it; nil: none
	again  bool  // a spot further out has the same settings, and around has others
}

// holds reports whether o is a part of s.
func (s *spot) holds(o *spot) bool {
	if s.exact {
		return o.exact && o.path == s.path
	}
	return strings.HasPrefix(o.path, s.path)
}

// fate is the treatment of the requests of a location, and of parts of it. It is not sure if
// it depends on properties that a rule cannot match.
type fate struct {
	settings
	parts   []spot
	settled bool   // requests end before limits
	code    string // of nginx's own answer
	sure    bool
}

// fates finds the fates of all locations.
func (c *converter) fates(servers []*server) {
	for _, s := range servers {
		s.spots = nil
		locations := append([]*location{s.root}, s.locations...)
		walkLocations(locations, func(l *location) { l.fate = nil })
		begin := c.rewrite(s.root, s.list, nil)
		s.spots, s.answer = begin.parts, begin.code
		if begin.settled {
			c.add(s, spot{path: "/", at: s.root, d: s.d, settings: begin.settings})
			continue
		}
		walkLocations(locations, c.spots)
	}
}

// add adds a spot, unless the server's own rewrites have its requests.
func (c *converter) add(s *server, o spot) {
	if !slices.ContainsFunc(s.spots, func(p spot) bool { return p.at == s.root && p.d != s.d && p.holds(&o) }) {
		s.spots = append(s.spots, o)
	}
}

// spots adds the spots of a location to its server.
func (c *converter) spots(l *location) {
	s := l.server
	f, to := c.fate(l), c.outside(l)
	if len(all(l.list, "internal")) > 0 {
		c.errorPages(l, &fate{code: "404"}, false)
	}
	switch {
	case l == s.root && s.has("/", false), l.modifier == "@":
		return
	case l.pattern() != nil:
		other := func(p spot) bool { return p.settings != to }
		if slices.ContainsFunc(l.pattern().reach(), func(p *location) bool {
			return c.outside(p) != to || slices.ContainsFunc(c.fate(p).parts, other)
		}) {
			c.note(l.d, "%v: a path in a rule is no regular expression; its requests are limited as those of the locations around it", l)
		} else if to.limits != nil {
			s.patterns = append(s.patterns, l)
		}
		return
	case !strings.HasPrefix(l.path, "/"):
		c.note(l.d, "%v: a path starts with a slash; not kept", l)
		return
	}
	c.add(s, spot{path: l.path, exact: l.exact(), at: l, d: l.d, settings: to})
	for _, p := range f.parts {
		c.add(s, p)
	}
	// nginx redirects a path that lacks only the final slash.
	if bare := strings.TrimSuffix(l.path, "/"); bare != l.path && bare != "" && l.passes() != nil && !s.has(bare, true) && !s.has(bare, false) {
		c.add(s, spot{path: bare, exact: true, at: l, d: l.d})
	}
}

// reach returns the locations whose requests may match a regular expression, and then belong
// to it.
func (l *location) reach() (list []*location) {
	switch {
	case l.outer != nil:
		list = append(list, l.outer)
	case !l.server.has("/", false):
		list = append(list, l.server.root)
	}
	for _, p := range l.siblings() {
		if p.modifier == "" {
			list = append(list, p)
			walkLocations(p.nested, func(p *location) {
				if p.prefix() {
					list = append(list, p)
				}
			})
		}
	}
	return list
}

// fate returns the fate of the requests of a location.
func (c *converter) fate(l *location) *fate {
	own := c.settings(l)
	switch {
	case l.busy: // nginx gives up after ten rounds
		return &fate{settings: own}
	case l.fate == nil:
		l.busy = true
		f := c.rewrite(l, l.list, &own)
		l.fate, l.busy = f, false
		c.later(l, f)
	}
	return l.fate
}

// outside returns the limits of clients' requests to a location.
func (c *converter) outside(l *location) settings {
	if len(all(l.list, "internal")) > 0 {
		return settings{} // they get 404
	}
	return c.fate(l).settings
}

// rewrite follows the directives of the rewrite phase for requests of a location, or, if own
// is nil, for all of a server.
func (c *converter) rewrite(l *location, list []*directive, own *settings) *fate {
	s := l.server
	stay := func() settings {
		if own != nil {
			return *own
		}
		return settings{}
	}
	f := &fate{settings: stay(), sure: true}
	within := spot{path: "/"}
	if l.pattern() == nil && l.modifier != "@" {
		within = spot{path: l.path, exact: l.exact()}
	}
	// matters reports whether requests with the settings to are limited differently from
	// others here.
	matters := func(to settings) bool {
		return own != nil && to != *own || own == nil && (to.limits != nil || c.limited(s))
	}
	for i, d := range list {
		switch d.name {
		case "return":
			f.settings, f.settled, f.code = settings{}, true, d.arg(0)
			return f
		case "break":
			return f
		case "if":
			if slices.ContainsFunc(d.block, func(d *directive) bool { return !harmless(d.name) }) && c.limited(s) {
				c.note(d, "%v: if %s: what it does with some requests is not kept", l, strings.Join(d.args, " "))
				f.sure = false
			}
		case "rewrite":
			where, known := shape(d.arg(0))
			if known && !where.holds(&within) && !within.holds(&where) {
				continue
			}
			every := known && where.holds(&within)
			to, stays, sure := c.target(s, d, list[i+1:], own)
			switch {
			case every && stays:
				return f
			case every:
				if !sure {
					c.note(d, "%v: rewrite %s: its target is not known", l, d.arg(0))
					if to.limits == nil {
						to = stay()
					}
				}
				f.settings, f.settled, f.sure = to, true, f.sure && sure
				if redirects(d) {
					f.code = "302"
				}
				return f
			case known && sure && l.pattern() == nil && l.modifier != "@":
				if own == nil || s.longest(where.path) == l && !(where.exact && s.has(where.path, true)) {
					where.at, where.d, where.settings = l, d, to
					if !slices.ContainsFunc(f.parts, func(p spot) bool { return p.holds(&where) }) {
						f.parts = append(f.parts, where)
					}
				}
			case stays && !slices.ContainsFunc(list[i+1:], rewrites), sure && !matters(to):
			case !known:
				f.sure = false
				c.note(d, "%v: rewrite %s: a rule cannot match its condition; these requests are limited as others of the %v", l, d.arg(0), l)
			default:
				f.sure = false
				c.note(d, "%v: rewrite %s: its target is not known; these requests are limited as others of the %v", l, d.arg(0), l)
			}
		}
	}
	return f
}

// rewrites reports whether a directive of the rewrite phase may end it.
func rewrites(d *directive) bool {
	return d.name == "rewrite" || d.name == "return" || d.name == "break" || d.name == "if"
}

// redirects reports whether nginx answers the requests that a rewrite matches.
func redirects(d *directive) bool {
	return d.arg(2) == "redirect" || d.arg(2) == "permanent" || strings.HasPrefix(d.arg(1), "http://") || strings.HasPrefix(d.arg(1), "https://") || strings.HasPrefix(d.arg(1), "$scheme")
}

// target returns the limits of requests that a rewrite matches, before rest. Stays reports
// whether they stay in their location.
func (c *converter) target(s *server, d *directive, rest []*directive, own *settings) (to settings, stays, sure bool) {
	flag := d.arg(2)
	switch {
	case redirects(d):
		return settings{}, false, true
	case flag == "break" && own != nil:
		return *own, true, true
	case flag == "" && slices.ContainsFunc(rest, rewrites):
		return settings{}, false, false
	}
	to, sure = c.inside(s, d.arg(1))
	return to, false, sure
}

// inside returns the limits of requests that nginx sends to another location, by its name or
// by a path.
func (c *converter) inside(s *server, to string) (settings, bool) {
	l := s.namedLocation(to)
	if !strings.HasPrefix(to, "@") {
		path, _, _ := strings.Cut(to, "?")
		literal, _, below := strings.Cut(path, "$")
		l = nil
		if strings.HasPrefix(literal, "/") {
			l = s.at(literal, below)
		}
	}
	if l == nil {
		return settings{}, false
	}
	f := c.fate(l)
	return f.settings, f.sure && len(f.parts) == 0
}

// limited reports whether any location of a server is limited.
func (c *converter) limited(s *server) (is bool) {
	walkLocations(append([]*location{s.root}, s.locations...), func(l *location) { is = is || c.settings(l).limits != nil })
	return is
}

// later notes the possible fates of a location's requests after limits were checked: if there
// were none, nginx checks those of the location that a request is sent to.
func (c *converter) later(l *location, f *fate) {
	if l == l.server.root && l.server.has("/", false) {
		return // it gets no request
	}
	checked := slices.ContainsFunc(f.uses(c.kind), func(d *directive) bool {
		z := c.zones[c.zoneName(d)]
		return z != nil && !z.lost && len(z.exempt)+len(z.only) == 0 && (z.share || len(z.by) == 0)
	})
	if !f.settled {
		for _, d := range all(l.list, "try_files") {
			last := d.arg(len(d.args) - 1)
			if strings.HasPrefix(last, "=") {
				continue
			}
			to, sure := c.inside(l.server, last)
			switch {
			case checked || to == f.settings && sure:
			case f.limits == nil && to.limits != nil:
				f.settings, f.sure = to, false
				c.note(d, "%v: try_files: requests for files that are there are not limited in nginx; here they are, as those of %s", l, last)
			default:
				c.note(d, "%v: try_files: requests without a file are limited as those of %s, too, in nginx", l, last)
			}
		}
	}
	if l.prefix() && strings.HasSuffix(l.path, "/") && !f.settled && !checked && l.passes() == nil {
		for _, d := range append(l.effective("index"), &directive{args: []string{"index.html"}})[:1] {
			for _, file := range d.args {
				if to, sure := c.inside(l.server, l.path+file); !sure || to.limits != nil && to != f.settings {
					c.note(l.d, "%v: requests for %s are limited as those of %s%s in nginx, if that file is there", l, l.path, l.path, file)
				}
			}
		}
	}
	c.errorPages(l, f, checked)
	if f.limits == nil {
		return
	}
	for _, d := range l.effective("add_header") {
		if d.arg(len(d.args)-1) == "always" {
			c.note(d, "add_header %s: is not in the answer of a denial here", d.arg(0))
		}
	}
	if c.kind == "limit_conn" && !f.dryRun && len(l.effective("limit_req")) > 0 && l.value("limit_req_dry_run", "off") != "on" {
		c.note(f.limits, "limit_conn: a request that it denies is charged by limit_req before in nginx; here it is charged by neither")
		for _, d := range l.effective("limit_req") {
			if _, burst := d.option("burst"); burst && !slices.Contains(d.args, "nodelay") {
				c.note(f.limits, "limit_conn: a request that limit_req delays is in flight while it waits here, and only afterwards in nginx; here limit_conn denies others meanwhile")
			}
		}
	}
}

// errorPages notes error pages that change which requests are limited, or the answer to a
// denial.
func (c *converter) errorPages(l *location, f *fate, checked bool) {
	for _, d := range l.effective("error_page") {
		last := len(d.args) - 1
		if last < 1 {
			continue
		}
		if f.limits != nil && slices.Contains(d.args[:last], f.status) {
			c.note(d, "error_page %s: is not the answer of a denial here", f.status)
		}
		if f.code != "" && !slices.Contains(d.args[:last], f.code) || checked || !strings.HasPrefix(d.arg(last), "/") && !strings.HasPrefix(d.arg(last), "@") {
			continue
		}
		if to, sure := c.inside(l.server, d.arg(last)); !sure || to.limits != nil && to != f.settings {
			c.note(d, "%v: error_page %s: requests that fail are limited as those of it in nginx, not here", l, d.arg(last))
		}
	}
}

var simple = regexp.MustCompile(`^\^((?:[A-Za-z0-9_/-]|\\[./-])*)(\(?\.\*\)?\$?|\$)?$`)

// shape returns the paths that a simple regular expression matches.
func shape(expr string) (spot, bool) {
	switch expr {
	case "", "/", "^", ".", ".*", "(.*)", ".*$", "(.*)$", "^(.+)$", "^.+$":
		return spot{path: "/"}, true
	}
	m := simple.FindStringSubmatch(expr)
	if m == nil || m[1] != "" && m[1][0] != '/' {
		return spot{}, false
	}
	path := strings.ReplaceAll(m[1], "\\", "")
	if path == "" {
		return spot{path: "/", exact: false}, m[2] != "$"
	}
	return spot{path: path, exact: m[2] == "$"}, true
}
