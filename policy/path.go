// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/url"
	"strings"
)

// readings is in how many ways servers read an escaped path at most: an escaped
// slash may be part of a segment, as net/http.ServeMux has it, or end it, as it
// does for nginx, and a backslash may be a slash, as it is for IIS. A rule applies
// if it does in any of them: which one the upstream prefers is not known.
const readings = 3

// reader holds a path in all ways in which it may be read: n, mostly one.
type reader struct {
	paths [readings]path
	n     int
}

var (
	openSlash = strings.NewReplacer("%2F", "/", "%2f", "/")
	openBoth  = strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", "/", "%5c", "/", `\`, "/")
)

// set reads an escaped path.
func (r *reader) set(escaped string) {
	r.paths[0].set(escaped)
	r.n = 1
	if strings.IndexByte(escaped, '%') < 0 && strings.IndexByte(escaped, '\\') < 0 {
		return
	}
	last := escaped
	for _, open := range [...]*strings.Replacer{openSlash, openBoth} {
		if text := open.Replace(escaped); text != last {
			last = text
			r.paths[r.n].set(text)
			r.n++
		}
	}
}

// path is a request's path, cleaned and cut into segments.
type path struct {
	segments []string
	slash    bool // whether a slash follows the last one
	ok       bool // whether it is a path at all, and not "*" or empty
}

// set cleans an escaped path. Dot segments are resolved behind their escapes,
// too: many a server reads %2e%2e as what it stands for. A segment that is
// escaped badly stays as it was sent.
func (p *path) set(escaped string) {
	p.segments, p.slash, p.ok = p.segments[:0], false, escaped != "" && escaped[0] == '/'
	if !p.ok {
		return
	}
	for rest := escaped[1:]; ; {
		part, tail, more := rest, "", false
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			part, tail, more = rest[:i], rest[i+1:], true
		}
		if strings.IndexByte(part, '%') >= 0 {
			if literal, err := url.PathUnescape(part); err == nil {
				part = literal
			}
		}
		p.slash = true
		switch part {
		case "", ".":
		case "..":
			p.segments = p.segments[:max(len(p.segments)-1, 0)]
		default:
			p.segments = append(p.segments, part)
			p.slash = false
		}
		if !more {
			return
		}
		rest = tail
	}
}

// segmentAt returns the n-th segment of an escaped path, "" if it has fewer. The
// problem says why it cannot be used: others might read another one.
func segmentAt(escaped string, n int) (value, problem string) {
	rest, more := strings.CutPrefix(escaped, "/")
	for i := 1; more; i++ {
		var part string
		if part, rest, more = strings.Cut(rest, "/"); part == "" && more && i <= n {
			return "", "has an empty segment; send it in its shortest form"
		}
		literal, err := url.PathUnescape(part)
		if i <= n && (err != nil || strings.ContainsAny(literal, `/\`)) {
			return "", "has an escaped slash or is not well-formed"
		}
		if hasDots(literal) {
			return "", "has a segment of dots; send it in its shortest form"
		}
		if i == n {
			value = literal
		}
	}
	return value, ""
}

// hasDots reports whether a segment, or one that an escaped slash may begin in
// it, is "." or "..".
func hasDots(segment string) bool {
	for part := range strings.FieldsFuncSeq(segment, func(c rune) bool { return c == '/' || c == '\\' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// value returns what the segment at i stands for: of the one behind the last
// segment of pat, all that follows.
func (p *path) value(pat *pattern, i int) string {
	if i < len(pat.segments) {
		return p.segments[i]
	}
	switch len(p.segments) - i {
	case 0:
		return ""
	case 1:
		if !p.slash {
			return p.segments[i]
		}
	}
	v := strings.Join(p.segments[i:], "/")
	if p.slash {
		v += "/"
	}
	return v
}
