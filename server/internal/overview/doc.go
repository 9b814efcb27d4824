// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package overview holds the state of the program as operators see it: data, without the requests
// that ask for it.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - rule.go: a rule with its counts
//   - overview.go: Overview and its parts, the keys denied most, and outcomes that the limits do not explain
package overview
