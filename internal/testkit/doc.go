// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit holds the parts that tests of many packages share: a clock to set, a
// store that counts, blocks and fails on demand, short ways to a plan, a request and a
// decision, ports for servers, waiting for an event, and the choice between make check
// and make long.
package testkit
