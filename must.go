// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

// Must returns v, and panics if err is not nil. It is for limits that are written in
// the program and made when it starts, as with template.Must:
//
//	var logins = sluice.Must(sluice.New(store, "login", sluice.PerMinute(5)))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
