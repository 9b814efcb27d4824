// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package admin serves operators: health, readiness, metrics, and the API and the page,
// on a listener of its own that only this machine can reach.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - admin.go: the handler of all pages, and its address
//   - override.go: changes of a key's limits
//   - live.go: changes as they happen
//   - overview.go: the state of the program and of its fleet
//   - status.go: rules, overrides, the keys denied most, and a request explained
//   - session.go: sessions of browsers
//   - keyadd.go: units given to a key
//   - key.go: the state of a key, and its reset
//   - api.go: API: access, answers, changes, and the audit log
//   - hosts.go: callers on this machine and names of hosts
package admin
