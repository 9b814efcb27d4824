// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

// TestPace: 21 jobs go out a tenth of a second apart. A call whose turn comes after its
// deadline returns at once and sends nothing.
func TestPace(t *testing.T) {
	if err := partner.Reset(t.Context(), ""); err != nil { // as the limit outlives a test
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start, sent := time.Now(), make(chan time.Duration, 21)
		for job := range 21 {
			go func() {
				if err := call(t.Context(), job, func(int) { sent <- time.Since(start) }); err != nil {
					t.Error(err)
				}
			}()
		}
		for i := range 21 {
			if got, want := <-sent, time.Duration(i)*100*time.Millisecond; got != want {
				t.Errorf("job %d is sent after %v, want %v", i+1, got, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 99*time.Millisecond)
		defer cancel()
		start = time.Now()
		err := call(ctx, 21, func(int) { t.Error("sent") })
		denied, ok := errors.AsType[*sluice.DeniedError](err)
		if !ok || denied.Decision.RetryAfter != 100*time.Millisecond || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want a denial for 100 ms at once", err, time.Since(start))
		}
	})
}
