// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package audit writes down the changes that operators make: in a log of this node, and in the
// one that the nodes of a shared store have in common.
package audit
