// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/grpclimit"
)

// TestClientPaces: a client gets its quota, and is denied once at most: its first denial states
// enough to keep to the limit, and if every answer states the limit it is never denied.
func TestClientPaces(t *testing.T) {
	const n = 30
	for _, c := range []struct {
		limit string
		most  time.Duration // by then all n must have passed
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
						s := newClientServer(t, c.limit, stated)
						s.latency = latency
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

// TestClientPacesLongCalls: long calls and streams, whose server does not answer meanwhile, cost
// the limit one unit each.
func TestClientPacesLongCalls(t *testing.T) {
	const n, work = 50, 20 * time.Second
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientServer(t, "2/s", true)
				conn := clientServe(t, s, grpclimit.ClientOptions{MaxWait: time.Hour}, true)
				if err := clientCall(t.Context(), conn); err != nil {
					t.Fatal(err)
				}
				s.work = work
				start := time.Now()
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						call := clientCall
						if stream {
							call = func(ctx context.Context, conn *grpc.ClientConn, _ ...grpc.CallOption) error {
								_, err := clientDown(ctx, conn, 1)
								return err
							}
						}
						if err := call(t.Context(), conn); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if got := s.denied.Load(); got != 0 {
					t.Errorf("%d were denied; want 0", got)
				}
				// One of two units is kept for a second for the latest call.
				if took := time.Since(start); took > 2*n/2*time.Second+work {
					t.Errorf("took %v; want at most %v", took, 2*n/2*time.Second+work)
				}
			})
		})
	}
}

// TestClientRecovers: part of a first burst is denied, as no limit has been stated; each call
// once at most, and all pass in the end.
func TestClientRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientServer(t, "10/s", false)
		s.latency = time.Millisecond
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
