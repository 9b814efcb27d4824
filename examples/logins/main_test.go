// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func try(t *testing.T, user, ip string, want time.Duration) {
	t.Helper()
	if got, err := mayTry(t.Context(), user, ip); err != nil || got != want {
		t.Errorf("%s from %s: wait %v, %v; want %v", user, ip, got, err, want)
	}
}

// TestUser: a sixth try comes a fifth of a minute after the first.
func TestUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 5 {
			try(t, "ann", "192.0.2.1", 0)
		}
		try(t, "ann", "192.0.2.2", 12*time.Second)
		try(t, "bob", "192.0.2.1", 0)
		time.Sleep(12 * time.Second)
		try(t, "ann", "192.0.2.2", 0)
		try(t, "ann", "192.0.2.2", 12*time.Second)
	})
}

// TestAddress: who tries 21 users from one address is denied at the last, and that
// try does not count under the user.
func TestAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 20 {
			try(t, fmt.Sprint("user", i), "198.51.100.1", 0)
		}
		try(t, "cho", "198.51.100.1", 3*time.Second)
		for range 5 {
			try(t, "cho", "198.51.100.2", 0)
		}
		try(t, "cho", "198.51.100.2", 12*time.Second)
	})
}
