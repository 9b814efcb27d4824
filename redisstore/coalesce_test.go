// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestWaitingTakesShareACall: takes of one key that come while another is on its way share a
// call, and each has a decision of its own.
func TestWaitingTakesShareACall(t *testing.T) {
	for _, text := range []string{"1000/366day", "1000/366day sliding-log", "1000/366day sliding-counter", "1000/366day fixed-window", "1000/366day sliding-histogram precision 3"} {
		t.Run(text, func(t *testing.T) {
			server := redistest.Shared(t, redistest.Redis(t))
			s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
			client := server.Client(t)
			l := testkit.Limiter(t, s, "scope", text)
			if _, err := l.Take(t.Context(), "k", 1); err != nil { // so that the server knows the script
				t.Fatal(err)
			}
			redistest.ScriptCalls(t, client)
			release := redistest.HoldUp(t, server)
			const takes = 100
			var mu sync.Mutex
			left := make(map[int64]int)
			wait := clienttest.Line(takes, func(int) {
				d, err := l.Take(t.Context(), "k", 1)
				if err != nil || !d.Allowed || d.Spent != 1 {
					t.Errorf("got %+v, %v, want allowed", d, err)
				}
				mu.Lock()
				left[d.Remaining]++
				mu.Unlock()
			})
			release()
			wait()
			for n := int64(999 - takes); n < 999; n++ {
				if left[n] != 1 {
					t.Errorf("%d units remaining: got %d decisions, want 1", n, left[n])
				}
			}
			if got := redistest.ScriptCalls(t, client); got >= takes/2 {
				t.Errorf("got %d calls for %d takes, want them to share calls", got, takes)
			}
		})
	}
}

// TestWaitingRequestsOfEveryKindShareACall: a call may hold any operations.
func TestWaitingRequestsOfEveryKindShareACall(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "100/h", "50/h sliding-log")
	release := redistest.HoldUp(t, server)
	var spent atomic.Int64
	wait := clienttest.Line(60, func(i int) {
		req := sluice.Request{Charge: l.Of("k", 3), Outcomes: new(make(sluice.Outcomes, 2))}
		switch i % 3 {
		case 1:
			req.Op = sluice.OpTakeUpTo
		case 2:
			req.Op = sluice.OpPeek
		}
		d, err := s.Take(t.Context(), req)
		if err != nil {
			t.Error(err)
		}
		if o := (*req.Outcomes)[d.Binding]; o.Remaining != d.Remaining || o.ResetAfter != d.ResetAfter {
			t.Errorf("the binding outcome is %+v, the decision %+v", o, d)
		}
		spent.Add(d.Spent)
	})
	release()
	wait()
	if got := spent.Load(); got != 50 {
		t.Errorf("got %d units admitted, want 50", got)
	}
}

// TestWhoLeavesTheLineIsNotCharged: a caller that leaves before its request is sent spends
// nothing.
func TestWhoLeavesTheLineIsNotCharged(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "1000/h sliding-log")
	if _, err := l.Take(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	release := redistest.HoldUp(t, server)
	first := clienttest.Line(1, func(int) { // the first is on its way, and the others wait for it
		if d, err := l.Take(t.Context(), "k", 10); err != nil || !d.Allowed {
			t.Errorf("got %+v, %v, want allowed", d, err)
		}
	})
	redistest.AwaitBlocked(t, server, "1")
	ctx, cancel := context.WithCancel(t.Context())
	left := clienttest.Line(50, func(int) {
		if _, err := l.Take(ctx, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
	cancel()
	left()
	release()
	first()
	d, err := l.Peek(t.Context(), "k", 1)
	if err != nil || d.Remaining != 1000-1-10 {
		t.Errorf("got %+v, %v, want 989 remaining", d, err)
	}
}

// TestHotKeyIsExact: many callers of one key get exactly the units that the limit grants.
func TestHotKeyIsExact(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, text := range []string{"500/day", "500/day sliding-log", "500/year fixed-window calendar UTC", "500/day sliding-histogram", "500/366day sliding-counter conservative"} {
		t.Run(text, func(t *testing.T) {
			s := open(t, server, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
			other := open(t, server, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling, NoCoalescing: true})
			var allowed atomic.Int64
			clienttest.Line(64, func(i int) {
				store := s
				if i%8 == 0 {
					store = other
				}
				l := testkit.Limiter(t, store, "scope", text)
				for range 20 {
					d, err := l.Take(t.Context(), "k", 1)
					if err != nil {
						t.Error(err)
						return
					}
					allowed.Add(d.Spent)
				}
			})()
			if got := allowed.Load(); got != 500 {
				t.Errorf("got %d units admitted, want 500", got)
			}
		})
	}
}
