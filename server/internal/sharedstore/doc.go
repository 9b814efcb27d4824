// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sharedstore is a store that several processes share, wrapped so that each keeps
// answering while it is unavailable. The processes count themselves in it.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - heartbeat.go: what a node does with the others
//   - outagelog.go: the log of outages
//   - cause.go: the failure of a store in one line
//   - sharedstore.go: Store: opened, asked, closed
//   - failures.go: failure policies of a configuration
package sharedstore
