// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sharedstore wraps a store that several processes share, so that each process
// continues to answer while the store is unavailable. The processes count themselves in the
// store.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - heartbeat.go: heartbeats, the number of nodes and their secret
//   - outagelog.go: the log of outages
//   - cause.go: the failure of a store in one line
//   - sharedstore.go: Store: opened, used, closed
//   - failures.go: failure policies of a configuration
package sharedstore
