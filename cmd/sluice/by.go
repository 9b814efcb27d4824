// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/httplimit"
)

const byExample = "write ip, host, header.NAME, cookie.NAME, query.NAME or path.N"

// addBy keeps one part of the key, if it can be read.
func (p *parser) addBy(s string) {
	kind, name, _ := strings.Cut(s, ".")
	switch kind {
	case "ip", "host":
		if s != kind {
			p.fault("--by %q: %s has nothing behind it; %s", s, kind, byExample)
			return
		}
	case "header", "cookie", "query":
		if name == "" {
			p.fault("--by %q: names no %s; write for example %s.id", s, kind, kind)
			return
		}
	case "path":
		if n, err := strconv.Atoi(name); err != nil || n < 1 {
			p.fault("--by %q: is not a part of the path; write path.1 for the first", s)
			return
		}
	default:
		p.fault("--by %q: is not a part of a request; %s", s, byExample)
		return
	}
	if slices.Contains(p.by, s) {
		p.fault("--by %q: given twice", s)
		return
	}
	p.by = append(p.by, s)
}

// makeKey makes one key of all parts. It comes after all flags are read, as a
// client's address depends on whom to trust.
func (p *parser) makeKey() {
	keys := make([]httplimit.Key, 0, len(p.by))
	for _, s := range p.by {
		keys = append(keys, p.keyOf(s))
	}
	switch len(keys) {
	case 0: // a fault was found
	case 1:
		p.key = keys[0]
	default:
		p.key = httplimit.Join(keys...)
	}
}

// keyOf returns the key of a part that addBy has let through.
func (p *parser) keyOf(s string) httplimit.Key {
	switch kind, name, _ := strings.Cut(s, "."); kind {
	case "header":
		return httplimit.ByHeader(name)
	case "cookie":
		return httplimit.ByCookie(name)
	case "query":
		return httplimit.ByQuery(name)
	case "path":
		n, err := strconv.Atoi(name)
		if err != nil {
			return httplimit.Key{}
		}
		return httplimit.ByPathSegment(n)
	case "host":
		return httplimit.ByHost()
	default:
		return httplimit.ByClientIP(httplimit.ClientIP{Trusted: p.trusted})
	}
}

// curlArgs returns what a request needs to have a key of these parts.
func curlArgs(by []string, sample bool) string {
	path, query, flags := "/", []string(nil), ""
	for _, s := range by {
		switch kind, name, _ := strings.Cut(s, "."); kind {
		case "header":
			flags += "-H '" + name + ": u1' "
		case "cookie":
			flags += "-b '" + name + "=u1' "
		case "query":
			query = append(query, url.QueryEscape(name)+"=u1")
		case "path":
			if n, err := strconv.Atoi(name); err == nil && n <= 16 {
				path = "/" + strings.Repeat("x/", max(n, strings.Count(path, "/")-1))
			}
		}
	}
	if sample && !slices.Contains(query, "userId=u1") {
		query = append(query, "userId=u1")
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return flags + "\x00" + path
}
