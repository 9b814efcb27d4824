// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet lets the nodes of a shared store exchange changes of operators, and figures
// to show.
//
// A [Conn] has connections of its own, so that this exchange never delays a decision. All
// keys are in one hash slot,
//
//	PREFIX{fleet}!NAME
//
// so that a script may use any of them in a Cluster, too. About every 1.2 s a script reads
// the marks of all parts. A changed mark tells a part that there is more to read.
//
// [Records] is the part for overrides: a hash of records, each with a version from one
// counter, the log of their changes, and a copy of the records on each node.
package fleet
