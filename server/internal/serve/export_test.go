// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

// HeartbeatScope is the scope in which the nodes of a fleet count themselves, for a test that
// adds some.
const HeartbeatScope = heartbeatScope

var HeartbeatLimit = heartbeatLimit
