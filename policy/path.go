// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/url"
	"strings"
)

// readings is the largest number of ways in which servers read an escaped path: an escaped
// slash may be part of a segment, as in net/http.ServeMux, or separate segments, as in
// nginx, and a backslash may be a slash, as in IIS. A rule applies if it matches any of
// them, as the upstream's way is not known.
const readings = 3

// reader holds a path in each way to read it: n of them, mostly one.
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
	slash    bool // a slash follows the last segment
	ok       bool // it is a path, not "*" or empty
}

// set cleans an escaped path. Escaped dot segments are resolved, too: many servers read
// %2e%2e as "..". A segment with an invalid escape stays as it was sent.
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

// segmentAt returns the n-th segment of an escaped path, "" if it has fewer. The problem
// says why the segment cannot be used: servers may read another one.
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

// hasDots reports whether a segment is "." or "..", or contains such a segment between
// escaped slashes.
func hasDots(segment string) bool {
	for part := range strings.FieldsFuncSeq(segment, func(c rune) bool { return c == '/' || c == '\\' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// value returns the value of segment i; behind the last segment of pat, the rest of the
// path.
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
