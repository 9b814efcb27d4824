// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

// Implies is implies, for tests.
var Implies = implies
