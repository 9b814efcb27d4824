// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
)

// ByQuery returns a Key of a query parameter's value, unescaped. It reads the
// query as package net/url does, but refuses a parameter of that name on which
// servers do not agree: one that is not well-formed, for which net/url would
// leave it out, or that stands behind a semicolon or a number sign.
func ByQuery(name string) Key {
	if name == "" {
		return badKey("ByQuery: the name is empty")
	}
	part := "query parameter " + name
	return Key{name: part, value: func(r *http.Request) (string, error) {
		return queryValue(r.URL.RawQuery, name, part)
	}}
}

// queryValue does not make a map of all parameters, as url.ParseQuery does.
func queryValue(query, name, part string) (string, error) {
	value, found := "", false
	raw := query
	for more := true; more; {
		var pair string
		pair, query, more = strings.Cut(query, "&")
		k, v, _ := strings.Cut(pair, "=")
		if !sameUnescaped(k, name) {
			continue
		}
		if found {
			return "", twice(part)
		}
		if strings.IndexByte(v, ';') >= 0 {
			return "", Invalid(part, "has a semicolon that is not escaped; write it as %3B")
		}
		unescaped, err := url.QueryUnescape(v)
		if err != nil {
			return "", Invalid(part, "is not well-formed")
		}
		value, found = unescaped, true
	}
	if strings.ContainsAny(raw, ";#") {
		if _, ok := wire.Query(raw, name); !ok {
			return "", Invalid(part, "is sent beside a semicolon or a number sign that is not escaped; write them as %3B and %23")
		}
	}
	return value, nil
}

// sameUnescaped reports whether s, once unescaped, is name.
func sameUnescaped(s, name string) bool {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s == name && strings.IndexByte(s, ';') < 0
	}
	if len(s) > 3*len(name) || strings.IndexByte(s, ';') >= 0 {
		return false
	}
	u, err := url.QueryUnescape(s)
	return err == nil && u == name
}
