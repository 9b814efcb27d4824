// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/grpclimit"
)

// TestClientPaces: a client gets what it is due, and is denied once at most: what
// its first denial says is enough to keep to the limit, and where every answer
// states the limit it is never denied.
func TestClientPaces(t *testing.T) {
	const n = 30
	for _, c := range []struct {
		limit string
		most  time.Duration // all n must be through by then
	}{
		{"10/s burst 1", 3100 * time.Millisecond},
		{"10/s burst 5", 3100 * time.Millisecond},
		{"10/s sliding-log", 3500 * time.Millisecond},
		{"60/min burst 1", 31 * time.Second},
	} {
		for _, stated := range []bool{false, true} {
			for _, latency := range []time.Duration{0, 7 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s stated=%v latency=%v", c.limit, stated, latency), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := &clientServer{answer: clientLimit(t, c.limit, stated), latency: latency}
						conn := clientServe(t, s, grpclimit.ClientOptions{MaxWait: time.Hour}, true)
						start := time.Now()
						for range n {
							if err := clientCall(t.Context(), conn); err != nil {
								t.Fatal(err)
							}
						}
						if got := s.denied.Load(); got > 1 || stated && got > 0 {
							t.Errorf("%d calls were denied", got)
						}
						if took := time.Since(start); took > c.most+n*2*latency {
							t.Errorf("took %v; want at most %v", took, c.most)
						}
					})
				})
			}
		}
	}
}

// TestClientRecovers: of a burst out of nothing some is denied, as no limit has
// been stated; but each call once at most, and all get through.
func TestClientRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clientServer{answer: clientLimit(t, "10/s", false), latency: time.Millisecond}
		conn := clientServe(t, s, grpclimit.ClientOptions{}, true)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := clientCall(t.Context(), conn); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if allowed, denied := s.allowed.Load(), s.denied.Load(); allowed != 100 || denied != 90 {
			t.Errorf("%d allowed, %d denied; want 100, and 90: those above the burst, once each", allowed, denied)
		}
	})
}
