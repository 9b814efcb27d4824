// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestDuration: a request costs its running time, also after its client has left.
func TestDuration(t *testing.T) {
	t.Parallel()
	for _, hangsUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs up %v", hangsUp), func(t *testing.T) {
			up := newStubborn(t, answering(http.StatusOK))
			s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: time, by: ip, limits: 50/h fixed-window, cost: milliseconds}]\n", up.url), servetest.Stopped)
			if hangsUp {
				if got := hangUp(t, s, speaking(t, false), up.there); got != 0 {
					t.Fatalf("status %d, want none", got)
				}
				abandoned(t, s, 1)
				time.AfterFunc(60*time.Millisecond, up.release)
			} else {
				go func() {
					select {
					case <-up.there: // only from then on it takes 60 ms
						time.AfterFunc(60*time.Millisecond, up.release)
					case <-t.Context().Done():
					}
				}()
				if got := s.Get(t, "/").Status; got != http.StatusOK {
					t.Fatalf("status %d, want 200", got)
				}
			}
			settled(t, s)
			status := 0
			for range 20 { // an answer may precede its settlement; 20 cost 20
				if status = s.Get(t, "/").Status; status == http.StatusTooManyRequests {
					return
				}
			}
			t.Errorf("behind 60 ms of 50 an hour: status %d, want 429", status)
		})
	}
}
