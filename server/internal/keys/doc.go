// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package keys finds the keys that an operator names by the values of their parts, and the limits
// that they have.
//
// The files, in the order in which to read them; data stands behind the code that uses it:
//
//   - touched.go: the keys in an entry of another node
//   - target.go: Key, and the keys of levels that it means
package keys
