// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"
)

// TestTries: a sixth try comes a fifth of a minute after the first. The 21st user from one
// address is denied, and that try does not count under the user.
func TestTries(t *testing.T) {
	run := rand.Text() // as the limits outlive it
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rest     time.Duration // before the tries
			user, ip string
			times    int
			wait     time.Duration
		}{
			{0, "ann", "1", 5, 0},
			{0, "ann", "2", 1, 12 * time.Second},
			{0, "bob", "1", 1, 0},
			{12 * time.Second, "ann", "2", 1, 0},
			{0, "ann", "2", 1, 12 * time.Second},
			{0, "", "3", 20, 0}, // each is another user
			{0, "cho", "3", 1, 3 * time.Second},
			{0, "cho", "4", 5, 0},
			{0, "cho", "4", 1, 12 * time.Second},
		} {
			time.Sleep(c.rest)
			for range c.times {
				user := run + c.user
				if c.user == "" {
					user = rand.Text()
				}
				if got, err := mayTry(t.Context(), user, run+c.ip); err != nil || got != c.wait {
					t.Errorf("%s from %s: wait %v, %v; want %v", c.user, c.ip, got, err, c.wait)
				}
			}
		}
	})
}
