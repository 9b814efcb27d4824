// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package overview holds the state of the program as operators see it: data, without the requests
// that ask for it.
package overview
