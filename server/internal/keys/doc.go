// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package keys finds the keys that an operator names by the values of their parts, and the limits
// that they have.
package keys
