// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package overrides holds the overrides that operators make while the program runs: a list that a
// file keeps over a restart, and that the nodes of a shared store share. It knows no HTTP.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - share.go: the list as all nodes of a store have it
//   - compile.go: overrides over the active rules
//   - file.go: the file
//   - list.go: List, and this node's own changes
package overrides
