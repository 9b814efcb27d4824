// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// server is one server of nginx.
type server struct {
	block
	d         *directive // nil: a file's directives without a server
	locations []*location
	root      *location   // of requests without a location
	spots     []spot      // of its requests, for the limits of the converter's kind
	patterns  []*location // limited regular expressions without a spot

	addresses []string // at which it listens
	standard  []string // addresses of which it is the default server
	named     []string // names in nginx's form
	names     []string // names that a rule can have
	hosts     []string // hosts of its rules; none: every host, if it is open
	limited   bool     // any of its requests are limited
	open      bool     // it gets requests for hosts that it does not name

	answer string    // the code of nginx's answer to all its requests; "": none
	rest   *location // of requests that no location passes on; nil: none
	routed bool      // a location passes requests on
}

// location is a location of a server.
type location struct {
	block
	d              *directive // the server's for its root
	server         *server
	outer          *location // nil: none
	modifier, path string    // "", "=", "^~", "~", "~*", "@"
	nested         []*location
	fate           *fate // nil: not found yet
	busy           bool  // its fate is being found
}

func (c *converter) servers(http *block) (servers []*server) {
	found := all(http.list, "server")
	if len(found) == 0 {
		found = []*directive{{block: http.list, file: c.files[0].Name}}
	}
	for _, d := range found {
		s := &server{block: block{d.block, http}, d: d}
		s.locations = c.locate(s, nil, &s.block)
		s.root = &location{block: block{nil, &s.block}, d: d, server: s, path: "/"}
		s.root.list = all(d.block, "try_files") // locations do not inherit it
		for _, n := range all(d.block, "server_name") {
			for _, name := range n.args {
				s.named = append(s.named, strings.ToLower(name))
			}
		}
		servers = append(servers, s)
	}
	return servers
}

// locate returns the locations of a block, with those nested in them.
func (c *converter) locate(s *server, outer *location, b *block) (list []*location) {
	for _, d := range all(b.list, "location") {
		l := &location{block: block{d.block, b}, d: d, server: s, outer: outer, path: d.arg(0)}
		if len(d.args) > 1 {
			l.modifier, l.path = d.arg(0), d.arg(1)
		} else {
			for _, m := range []string{"=", "^~", "~*", "~", "@"} {
				if rest, ok := strings.CutPrefix(l.path, m); ok {
					l.modifier, l.path = m, rest
					break
				}
			}
		}
		l.nested = c.locate(s, l, &l.block)
		list = append(list, l)
	}
	return list
}

func (l *location) regex() bool  { return strings.HasPrefix(l.modifier, "~") }
func (l *location) exact() bool  { return l.modifier == "=" }
func (l *location) prefix() bool { return l.modifier == "" || l.modifier == "^~" }

// siblings returns the locations of the same block.
func (l *location) siblings() []*location {
	if l.outer == nil {
		return l.server.locations
	}
	return l.outer.nested
}

// pattern returns the outermost regular expression that a request of the location must match,
// or nil.
func (l *location) pattern() (outermost *location) {
	for ; l != nil; l = l.outer {
		if l.regex() {
			outermost = l
		}
	}
	return outermost
}

// String returns the location in the form of a note.
func (l *location) String() string {
	if l == l.server.root {
		return "server " + cmp.Or(strings.Join(l.server.named, " "), "without a name")
	}
	return "location " + strings.Join(l.d.args, " ")
}

// passes returns the directive that passes the location's requests on, or nil if nginx answers
// them.
func (l *location) passes() *directive {
	for _, d := range l.list {
		if strings.HasSuffix(d.name, "_pass") {
			return d
		}
	}
	return nil
}

// find returns the location that nginx selects for a path, or nil. Final means that outer
// regular expressions are not tried. Sure is false if a regular expression cannot be read.
func find(list []*location, uri string) (found *location, final, sure bool) {
	var outer *location
	for _, l := range list {
		switch {
		case l.exact() && l.path == uri:
			return l, true, true
		case l.prefix() && strings.HasPrefix(uri, l.path) && (outer == nil || len(l.path) > len(outer.path)):
			outer = l
		}
	}
	if found = outer; outer != nil {
		if inner, final, sure := find(outer.nested, uri); inner != nil || !sure {
			if found = inner; final || !sure {
				return found, final, sure
			}
		}
		if outer.modifier == "^~" {
			return found, false, true
		}
	}
	for _, l := range list {
		if !l.regex() {
			continue
		}
		expr := l.path
		if l.modifier == "~*" {
			expr = "(?i)" + expr
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, true, false
		}
		if re.MatchString(uri) {
			if inner, _, sure := find(l.nested, uri); inner != nil || !sure {
				return inner, true, sure
			}
			return l, true, true
		}
	}
	return found, false, true
}

// at returns the location of a path, or of every path below it, or nil if that is not certain.
func (s *server) at(path string, below bool) *location {
	found, _, sure := find(s.locations, path)
	if !sure {
		return nil
	}
	if below && !s.alone(s.locations, path) {
		return nil
	}
	return cmp.Or(found, s.root)
}

// alone reports whether no location takes a part of the paths below a path.
func (s *server) alone(list []*location, path string) bool {
	return !slices.ContainsFunc(list, func(l *location) bool {
		return l.regex() || l.modifier != "@" && (strings.HasPrefix(l.path, path) && l.path != path || l.exact() && l.path == path) || !s.alone(l.nested, path)
	})
}

// namedLocation returns the named location, or nil.
func (s *server) namedLocation(name string) *location {
	i := slices.IndexFunc(s.locations, func(l *location) bool { return l.modifier == "@" && "@"+l.path == name })
	if i < 0 {
		return nil
	}
	return s.locations[i]
}

// longest returns the location of a path by prefixes alone.
func (s *server) longest(path string) *location {
	best := s.root
	walkLocations(s.locations, func(l *location) {
		if l.prefix() && l.pattern() == nil && strings.HasPrefix(path, l.path) && (best == s.root || len(l.path) > len(best.path)) {
			best = l
		}
	})
	return best
}

// has reports whether there is a location of exactly this path.
func (s *server) has(path string, exact bool) (found bool) {
	walkLocations(s.locations, func(l *location) {
		found = found || l.path == path && (l.exact() == exact) && (exact || l.prefix())
	})
	return found
}

func walkLocations(list []*location, visit func(*location)) {
	for _, l := range list {
		visit(l)
		walkLocations(l.nested, visit)
	}
}
