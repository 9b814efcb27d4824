// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
)

// ByHeader returns a Key of a request header field's value, compared byte by
// byte. Whoever can write the field chooses the budget: use it for one that a
// trusted peer sets, or that has been verified.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	switch {
	case !validFieldName(name):
		return badKey("ByHeader: %q is not a header field's name", name)
	case name == "Host":
		return badKey("ByHeader: Host is not among a request's header fields; use ByHost")
	}
	part := "header " + name
	return Key{name: part, value: func(r *http.Request) (string, error) {
		return only(part, r.Header[name])
	}}
}

// only returns the one value, "" if there is none.
func only(part string, values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", twice(part)
}

func twice(part string) error { return Invalid(part, "is sent more than once; send it once") }

// ByCookie returns a Key of a cookie's value, in which escapes such as %41 stand
// for what they mean, as many an application reads it. Blanks and quotes around it
// do not count.
//
// What servers read in different ways is refused, as a session would have a budget
// for every spelling: a value that RFC 6265 does not allow, such as one with a
// blank or a comma, and a cookie whose name is taken for this one by some only,
// such as "SID", "%73id", "sid" and a Unicode blank, or "sid" behind a comma in
// the value of another.
func ByCookie(name string) Key {
	if !validFieldName(name) {
		return badKey("ByCookie: %q is not a cookie's name", name)
	}
	part := "cookie " + name
	return Key{name: part, value: func(r *http.Request) (string, error) {
		values, problem := wire.Cookies(r, name)
		if problem != "" {
			return "", Invalid(part, problem)
		}
		return only(part, values)
	}}
}

// ByHost returns a Key of the requested host in lower case, without port,
// brackets and the dot at its end. A client may name any host: use it behind a
// front that accepts known ones only.
func ByHost() Key {
	return Key{name: "host", value: func(r *http.Request) (string, error) {
		if strings.HasPrefix(r.Host, "[") && !strings.Contains(r.Host, "]") {
			return "", Invalid("host", "has a bracket that is not closed")
		}
		return strings.Trim(wire.Host(r.Host), "[]"), nil
	}}
}

// ByPattern returns a Key of the [http.ServeMux] pattern that matched, such as
// "GET /users/{id}". It is known only within the mux, to a Middleware around a
// handler that was registered there; around the mux itself use [ByRoute].
func ByPattern() Key {
	return Key{name: "route", value: func(r *http.Request) (string, error) { return r.Pattern, nil }}
}

// ByRoute returns a Key of the pattern under which mux would serve the request.
// A request that mux has no pattern for lacks the key.
func ByRoute(mux *http.ServeMux) Key {
	if mux == nil {
		return badKey("ByRoute: the mux is nil")
	}
	return Key{name: "route", value: func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		return pattern, nil
	}}
}

// ByClaim returns a Key of a claim, such as a user's id, of a token that has
// been verified before the Middleware runs. It is for the caller to look it
// up, where the verifier has left it. It is missing where claim returns false.
func ByClaim(name string, claim func(*http.Request) (string, bool)) Key {
	switch {
	case name == "":
		return badKey("ByClaim: the name is empty; say which claim, for error texts")
	case claim == nil:
		return badKey("ByClaim %q: the function is nil", name)
	}
	return Key{name: "claim " + name, value: func(r *http.Request) (string, error) {
		if v, ok := claim(r); ok {
			return v, nil
		}
		return "", nil
	}}
}

// ByPathSegment returns a Key of the n-th segment of the path, from 1: the
// second of /users/u1/cart is u1. It is unescaped, as ServeMux has it.
//
// A path that others might read differently is refused: one with a segment of
// one or two dots, and one that up to the n-th segment has an empty one or an
// escaped slash or backslash.
func ByPathSegment(n int) Key {
	if n < 1 {
		return badKey("ByPathSegment: %d must be at least 1, which is the first segment", n)
	}
	return Key{name: "path", value: func(r *http.Request) (string, error) { return segment(r.URL, n) }}
}

func segment(u *url.URL, n int) (string, error) {
	if hasDots(u.Path) {
		return "", Invalid("path", "has a segment of dots; send it in its shortest form")
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), "/")
	for i := 1; ok; i++ {
		var s string
		if s, rest, ok = strings.Cut(rest, "/"); s == "" {
			if !ok {
				break // the slash at the path's end
			}
			return "", Invalid("path", "has an empty segment; send it in its shortest form")
		}
		value, err := url.PathUnescape(s)
		if err != nil || strings.ContainsAny(value, `/\`) {
			return "", Invalid("path", "has an escaped slash or is not well-formed")
		}
		if i == n {
			return value, nil
		}
	}
	return "", Missing("path segment")
}

// hasDots reports whether a segment of path is "." or "..".
func hasDots(path string) bool {
	for i := 0; i < len(path); i++ {
		if path[i] != '.' || i > 0 && !isSlash(path[i-1]) {
			continue
		}
		if i+1 < len(path) && path[i+1] == '.' {
			i++
		}
		if i+1 == len(path) || isSlash(path[i+1]) {
			return true
		}
	}
	return false
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }
