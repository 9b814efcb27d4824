// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"
)

// The limits outlive a test, so each run has users and addresses of its own.
func try(t *testing.T, user, ip string, want time.Duration) {
	t.Helper()
	if got, err := mayTry(t.Context(), user, ip); err != nil || got != want {
		t.Errorf("%s from %s: wait %v, %v; want %v", user, ip, got, err, want)
	}
}

// TestUser: a sixth try comes a fifth of a minute after the first.
func TestUser(t *testing.T) {
	ann, bob, ip, other := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	synctest.Test(t, func(t *testing.T) {
		for range 5 {
			try(t, ann, ip, 0)
		}
		try(t, ann, other, 12*time.Second)
		try(t, bob, ip, 0)
		time.Sleep(12 * time.Second)
		try(t, ann, other, 0)
		try(t, ann, other, 12*time.Second)
	})
}

// TestAddress: the 21st user from one address is denied, and the try does not count
// under the user.
func TestAddress(t *testing.T) {
	cho, ip, other := rand.Text(), rand.Text(), rand.Text()
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			try(t, rand.Text(), ip, 0)
		}
		try(t, cho, ip, 3*time.Second)
		for range 5 {
			try(t, cho, other, 0)
		}
		try(t, cho, other, 12*time.Second)
	})
}
