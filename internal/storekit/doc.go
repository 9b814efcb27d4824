// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package storekit is what tests of stores, and of what stands in front of
// stores, have in common: a clock to set, a store that counts and fails on
// demand, and short ways to a plan, a request and a decision.
package storekit
