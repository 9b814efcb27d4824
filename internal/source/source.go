// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package source names where a part of a key comes from.
package source

import "slices"

// The sources.
const (
	None        = ""       // not valid
	IP          = "ip"     // the client's address or network
	Header      = "header" // a header field; a device id is one
	Query       = "query"  // a query parameter
	Cookie      = "cookie" // a cookie
	Path        = "path"   // what a wildcard of the path pattern stands for, or a segment by its number
	Claim       = "claim"  // a claim of a verified token
	Host        = "host"   // the requested host
	Method      = "method" // the method
	Certificate = "cert"   // a name in a client's verified certificate
	Func        = "func"   // what a function says
	First       = "first"  // the first of several parts that the request has
	All         = "all"    // several parts, all of which the request must have
)

// Written are the sources that a text names, but for IP, which has forms of its own.
var Written = []string{Header, Query, Cookie, Path, Claim, Host, Method, Certificate}

// Known reports whether there is such a source.
func Known(s string) bool {
	switch s {
	case IP, Func, First, All:
		return true
	}
	return slices.Contains(Written, s)
}
