// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/url"
	"strings"
)

// ByQuery returns a Key of a query parameter's value, unescaped. It reads the
// query as package net/url does, but refuses a parameter of that name which is
// not well-formed and which net/url would leave out.
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
