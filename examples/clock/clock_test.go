// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"
)

// begin
func TestSendCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		number, sent := rand.Text(), 0 // a key of its own, as the limit outlives the test
		send := func() error { return SendCode(t.Context(), number, func() { sent++ }) }
		for range 3 {
			if err := send(); err != nil {
				t.Error(err)
			}
		}
		if err := send(); err == nil || err.Error() != "try again in 20m0s" {
			t.Errorf("the fourth code: %v", err)
		}
		time.Sleep(20 * time.Minute) // of virtual time
		if err := send(); err != nil || sent != 4 {
			t.Errorf("after 20 minutes: %v, %d codes sent", err, sent)
		}
	})
}

// end

// TestTwoBubbles: each begins on 1 January 2000, and a limit that is a variable of the
// package keeps its state from one to the next.
func TestTwoBubbles(t *testing.T) {
	number := rand.Text()
	for bubble := range 2 {
		synctest.Test(t, func(t *testing.T) {
			for range 3 {
				err := SendCode(t.Context(), number, func() {})
				if denied := err != nil; denied != (bubble == 1) {
					t.Errorf("bubble %d: %v", bubble+1, err)
				}
			}
		})
	}
}
