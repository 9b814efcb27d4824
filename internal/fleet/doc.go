// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is how the nodes of a shared store exchange what is not
// counted there: changes that an operator makes, and figures to show.
//
// A [Conn] is a node's connection for that. It has connections of its own, so that
// what is exchanged never delays a decision. All keys are in one hash slot,
//
//	PREFIX{fleet}!NAME
//
// so that a script may use any of them in a Cluster, too. About every 1.2 s a Conn reads
// the marks that its parts have registered, by one script, and hands each part its
// own: a part sees there whether there is more to read.
package fleet
