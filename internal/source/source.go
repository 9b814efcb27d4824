// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package source names the sources of parts of a key.
package source

import "slices"

// The sources.
const (
	None        = ""       // not valid
	IP          = "ip"     // the client's address or network
	Header      = "header" // a header field; a device id is one
	Query       = "query"  // a query parameter
	Cookie      = "cookie" // a cookie
	Path        = "path"   // the value of a wildcard of the path pattern, or a segment by its number
	Claim       = "claim"  // a claim of a verified token
	Host        = "host"   // the requested host
	Method      = "method" // the method
	Certificate = "cert"   // a name in a client's verified certificate
	Func        = "func"   // the result of a function
	First       = "first"  // the first of several parts that the request has
	All         = "all"    // several parts; the request must have all of them
)

// Written are the sources that a text names, except IP, which has forms of its own.
var Written = []string{Header, Query, Cookie, Path, Claim, Host, Method, Certificate}

// Known reports whether there is such a source.
func Known(s string) bool {
	switch s {
	case IP, Func, First, All:
		return true
	}
	return slices.Contains(Written, s)
}
