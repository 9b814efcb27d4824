// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package fleetview shows the nodes that share a store: the sum of their counts, each of them, and
// notes on how they differ.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - notes.go: remarks about the nodes
//   - fleetview.go: Fleet, its nodes and rules
package fleetview
