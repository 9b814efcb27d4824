// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

// Filled is filled, for tests.
var Filled = filled
