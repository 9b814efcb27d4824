// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package stores

// Micros is an instant in µs since 1970.
type Micros int64

// Clocked is a client of a shared store that also sets the time at which the store decides, in
// place of the server's. Only clients of tests implement it: Micros is internal, so that no
// client of a program does so by accident.
type Clocked interface{ Now() Micros }
