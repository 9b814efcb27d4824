// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/token"
	"net/url"
	"strings"
)

// pattern is a path pattern in the syntax of net/http.ServeMux.
type pattern struct {
	text     string
	segments []segment
	end      end
	rest     string // name of the wildcard at the end, if it has one
}

// segment is a literal or, with a wildcard's name, any single segment.
type segment struct {
	literal, wildcard string
}

// end is the part of a path that may follow the segments of a pattern.
type end uint8

const (
	endHere  end = iota // nothing
	endSlash            // a slash and no more: {$}
	endBelow            // a slash and anything
)

const (
	maxPathBytes = 4 << 10
	maxSegments  = 64
)

func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if text == "" || text[0] != '/' {
		if method, _, ok := strings.Cut(text, " "); ok {
			return p, fmt.Errorf("%q: a path starts with a slash; the method %s belongs to the methods and a host to the hosts", text, method)
		}
		return p, fmt.Errorf("%q: a path starts with a slash, such as /users/{id}", text)
	}
	if len(text) > maxPathBytes || strings.Count(text, "/") > maxSegments {
		return p, fmt.Errorf("a path of %d bytes; at most %d bytes and %d segments are accepted", len(text), maxPathBytes, maxSegments)
	}
	names := map[string]bool{}
	p.segments = make([]segment, 0, strings.Count(text, "/"))
	rest := text[1:]
	for {
		part, tail, more := strings.Cut(rest, "/")
		rest = tail
		if part == "" {
			if more {
				return p, fmt.Errorf("%q: can never match, as doubled slashes are removed from a request's path; use one", text)
			}
			p.end = endBelow
			return p, nil
		}
		if !strings.ContainsAny(part, "{}") {
			literal, err := url.PathUnescape(part)
			if err != nil {
				return p, fmt.Errorf("%q: %q is not a valid escape; use %%25 for a percent sign", text, part)
			}
			if literal == "." || literal == ".." {
				return p, fmt.Errorf("%q: can never match, as %q is resolved in a request's path; use the path that results", text, literal)
			}
			p.segments = append(p.segments, segment{literal: literal})
		} else if err := p.wildcard(part, more, names); err != nil {
			return p, fmt.Errorf("%q: %w", text, err)
		} else if p.end != endHere {
			return p, nil
		}
		if !more {
			return p, nil
		}
	}
}

func (p *pattern) wildcard(part string, more bool, names map[string]bool) error {
	name, ok := strings.CutPrefix(part, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !ok || !closed {
		return fmt.Errorf("%q: a wildcard is a whole segment, such as {id}", part)
	}
	name, tail := strings.CutSuffix(name, "...")
	switch {
	case (tail || name == "$") && more:
		return fmt.Errorf("%s must be the end of the path", part)
	case name == "$" && !tail:
		p.end = endSlash
		return nil
	case !token.IsIdentifier(name):
		return fmt.Errorf("%s: a wildcard's name is made of letters, digits and underscores, such as {id}", part)
	case names[name]:
		return fmt.Errorf("%s: a second wildcard of that name; choose another", part)
	}
	names[name] = true
	if tail {
		p.end, p.rest = endBelow, name
		return nil
	}
	p.segments = append(p.segments, segment{wildcard: name})
	return nil
}

// find returns the index of the segment that a wildcard stands for, -1 without one.
func (p *pattern) find(name string) int {
	if p.rest == name && name != "" {
		return len(p.segments)
	}
	for i, s := range p.segments {
		if s.wildcard == name && name != "" {
			return i
		}
	}
	return -1
}

// matches reports whether a path matches the pattern.
func (p *pattern) matches(at *path) bool {
	n := len(p.segments)
	switch {
	case !at.ok || len(at.segments) < n:
		return false
	case len(at.segments) > n && p.end != endBelow:
		return false
	case len(at.segments) == n && at.slash != (p.end != endHere):
		return false
	}
	for i, s := range p.segments {
		if s.wildcard == "" && s.literal != at.segments[i] {
			return false
		}
	}
	return true
}

// within reports whether every path that matches p matches wide, too.
func (p *pattern) within(wide *pattern) bool {
	n := len(wide.segments)
	switch {
	case len(p.segments) < n, len(p.segments) > n && wide.end != endBelow:
		return false
	case len(p.segments) == n && p.end != wide.end && (p.end != endSlash || wide.end != endBelow):
		return false
	}
	for i, s := range wide.segments {
		if s.wildcard == "" && (p.segments[i].wildcard != "" || p.segments[i].literal != s.literal) {
			return false
		}
	}
	return true
}

// example returns a path that matches.
func (p *pattern) example() string {
	var b strings.Builder
	b.Grow(len(p.text) + len(p.segments)*len("example-"))
	for _, s := range p.segments {
		literal := s.literal
		if s.wildcard != "" {
			literal = "example-" + s.wildcard
		}
		b.WriteString("/" + url.PathEscape(literal))
	}
	if p.end != endHere {
		b.WriteByte('/')
	}
	return b.String()
}
