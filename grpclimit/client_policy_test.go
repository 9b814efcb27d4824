// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/grpclimit"
)

// clientPolicy is grpc-go's own retry policy for a status.
func clientPolicy(code string) grpc.DialOption {
	return grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": [%q]
	}}]}`, code))
}

// TestClientWithRetryPolicy: with the retry policy of grpc-go on, a call that was denied once
// passes the next time: nothing is sent too early, whichever of the two repeats it.
func TestClientWithRetryPolicy(t *testing.T) {
	for _, retries := range []int{0, -1} {
		// A machine that pauses long enough between two calls denies none of them.
		t.Run(fmt.Sprintf("MaxRetries=%d on a port", retries), func(t *testing.T) { testRetryPolicy(t, retries, false, 0) })
		t.Run(fmt.Sprintf("MaxRetries=%d in memory", retries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRetryPolicy(t, retries, true, 1) })
		})
	}
}

func testRetryPolicy(t *testing.T, retries int, inMemory bool, least int64) {
	t.Helper()
	s := newClientServer(t, "5/s burst 1", false)
	conn := clientServe(t, s, grpclimit.ClientOptions{MaxRetries: retries}, inMemory, clientPolicy("RESOURCE_EXHAUSTED"))
	for range 2 {
		if err := clientCall(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	if allowed, denied := s.allowed.Load(), s.denied.Load(); allowed != 2 || denied > 1 || denied < least {
		t.Errorf("%d allowed, %d denied; want 2, and 1 before the second", allowed, denied)
	}
	if n, err := clientDown(t.Context(), conn, 2); n != 2 || err != nil {
		t.Errorf("a stream: got %d messages, %v; want 2", n, err)
	}
	if allowed, denied := s.allowed.Load(), s.denied.Load(); allowed != 3 || denied > 2 || denied < 2*least {
		t.Errorf("%d allowed, %d denied; want 3, and one more denied", allowed, denied)
	}
}

// TestClientAttempts: how often a call reaches a server that always denies.
func TestClientAttempts(t *testing.T) {
	denied := clientDenial(codes.ResourceExhausted, time.Millisecond)
	for _, c := range []struct {
		name     string
		policy   string // status that grpc-go sends again
		pushback string
		retries  int
		want     int64
	}{
		{"both multiply", "RESOURCE_EXHAUSTED", "1", 0, 16},
		{"grpc-go alone", "RESOURCE_EXHAUSTED", "1", -1, 4},
		{"the interceptor alone", "ABORTED", "1", 0, 4},
		{"neither", "ABORTED", "1", -1, 1},
		{"forbidden to both", "RESOURCE_EXHAUSTED", "-1", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientScript()
				s.answer = func(int64) (metadata.MD, metadata.MD, error) {
					return nil, metadata.Pairs("grpc-retry-pushback-ms", c.pushback), denied
				}
				conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{MaxRetries: c.retries}, true, clientPolicy(c.policy))
				err := clientCall(t.Context(), conn)
				if st := status.Convert(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 2 {
					t.Errorf("got %v; want the server's denial", err)
				}
				if got := s.calls.Load(); got != c.want {
					t.Errorf("the call reached the server %d times; want %d", got, c.want)
				}
			})
		})
	}
}

// TestClientAmongMany: many calls and streams at once, over several connections with one
// budget, all pass in the end, and the caller's own options work.
func TestClientAmongMany(t *testing.T) {
	const callers, calls = 8, 20
	s := newClientServer(t, "1000/s burst 20", true)
	conn := clientServe(t, s, grpclimit.ClientOptions{MaxRetries: 100}, false)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				var header metadata.MD
				if err := clientCall(t.Context(), conn, grpc.Header(&header)); err != nil || len(header["ratelimit"]) != 1 {
					t.Errorf("got %v, %v; want no error and the header of the last attempt", header, err)
				}
			}
		})
		wg.Go(func() {
			for opened := 0; opened < calls; {
				n, err := clientDown(t.Context(), conn, 3)
				switch {
				case err == nil && n == 3:
					opened++
				case status.Code(err) != codes.ResourceExhausted:
					t.Errorf("got %d messages, %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.allowed.Load(); got != 2*callers*calls {
		t.Errorf("%d allowed; want %d", got, 2*callers*calls)
	}
}
