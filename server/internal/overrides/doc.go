// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package overrides holds the overrides that operators make while the program runs: a list that a
// file keeps over a restart, and that the nodes of a shared store share.
package overrides
