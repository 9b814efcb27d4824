// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream reads the URLs of upstreams. Files, flags and the gateway use this one
// parser, so that they accept the same URLs.
package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// mostBytes is the longest accepted URL or path.
const mostBytes = 4 << 10

// HTTP2 is the scheme of an upstream that speaks HTTP/2 without TLS, such as a gRPC server.
const HTTP2 = "h2c"

// Parse reads an upstream's URL. The error names the remedy.
func Parse(s string) (*url.URL, error) {
	const example = "use for example http://127.0.0.1:3000"
	if len(s) > mostBytes {
		return nil, fmt.Errorf("has %d bytes; use one of %d at most", len(s), mostBytes)
	}
	u, err := url.Parse(s)
	switch {
	case s == "":
		return nil, errors.New("is empty; " + example)
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL; %s", shown(s), example)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != HTTP2:
		return nil, fmt.Errorf("%q does not begin with http://, https:// or h2c://; %s", shown(s), example)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q names no host; %s", shown(s), example)
	case u.User != nil:
		return nil, fmt.Errorf("the one at %q holds a user name, which would be ignored; leave it out", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q has a query or a fragment; end it with the path", shown(s))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%q has the port %s; use one from 1 to 65535", s, port)
		}
	}
	return u, nil
}

// shown returns the part of a URL that may be shown: more people read faults than files, and
// the rest may hold a password, or a token in the query.
func shown(s string) string {
	if strings.Contains(s, "@") {
		return "…"
	}
	if at := strings.IndexAny(s, "?#"); at >= 0 {
		return s[:at]
	}
	return s
}

// ParsePath reads the path prefix of an upstream's requests, and returns it without escapes,
// in the form in which it is compared. A path that no cleaned request has is an error, which
// names the remedy.
func ParsePath(s string) (string, error) {
	if len(s) > mostBytes {
		return "", fmt.Errorf("has %d bytes; use one of %d at most", len(s), mostBytes)
	}
	if !strings.HasPrefix(s, "/") {
		return "", fmt.Errorf("%q does not begin with a slash; use a prefix such as /api", s)
	}
	if at := strings.IndexAny(s, "?#"); at >= 0 {
		return "", fmt.Errorf("%q has a query or a fragment, which are no part of a path; use %s", s, s[:at])
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		return "", fmt.Errorf("%q holds an escape that is not valid; use %%25 for a percent sign", s)
	}
	if strings.Count(plain, "/") > strings.Count(s, "/") {
		return "", fmt.Errorf("%q has an escaped slash, which is compared as a slash; use a slash", s)
	}
	if clean := path.Clean(plain); clean != plain && (clean == "/" || clean+"/" != plain) {
		return "", fmt.Errorf("%q can never match, as doubled slashes and dot segments are resolved in a request's path; use %s",
			s, (&url.URL{Path: clean}).EscapedPath())
	}
	return plain, nil
}
