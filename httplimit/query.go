// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"

	"github.com/sluicegate/sluice/internal/wire"
)

// ByQuery returns a Key of a query parameter's value, unescaped. It reads the
// query as package net/url does, but refuses a parameter of that name on which
// servers do not agree: one that is not well-formed, for which net/url would
// leave it out, that stands behind a semicolon or a number sign, or whose name
// only some take for this one, such as that in other letters.
func ByQuery(name string) Key {
	if name == "" {
		return badKey("ByQuery: the name is empty")
	}
	part := "query parameter " + name
	return Key{name: part, value: func(r *http.Request) (string, error) {
		var one [1]string // mostly there is no other
		values, ok := wire.AppendQuery(one[:0], r.URL.RawQuery, name)
		if !ok {
			return "", Invalid(part, wire.QueryProblem)
		}
		return only(part, values)
	}}
}
