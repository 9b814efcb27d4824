// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package audit logs the changes that operators make, in a log of this node and in a log that
// the nodes of a shared store share. It knows no HTTP.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - log.go: a change and its entries, the last ones of all nodes; Log and its file
package audit
