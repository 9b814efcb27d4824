// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// must returns a function that returns a decision, and fails the test on an error.
func must(tb testing.TB) func(sluice.Decision, error) sluice.Decision {
	tb.Helper()
	return func(d sluice.Decision, err error) sluice.Decision {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return d
	}
}

// fails is a store's answer to the requests of an operation.
func fails(op sluice.Op, err error) func(context.Context, sluice.Request) error {
	return func(_ context.Context, req sluice.Request) error {
		if req.Op == op {
			return err
		}
		return nil
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := sluice.New(nil, "s", sluice.PerMinute(1)); err == nil || !strings.Contains(err.Error(), "store is nil") {
		t.Errorf("without a store: %v", err)
	}
	store := memstore.New(memstore.Options{})
	_, err := sluice.New(store, "", sluice.PerMinute(0))
	var fault *sluice.LimitError
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "scope") {
		t.Errorf("got %v, want the faults of scope and limit", err)
	}
}

func TestLimiterOperations(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name string
		do   func(lim *sluice.Limiter, c *testkit.Clock) (sluice.Decision, error)
		want sluice.Decision // without the receipt
		left int64           // of 5, afterwards
	}{
		{"take", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			return lim.Take(ctx, "k", 2)
		}, sluice.Decision{Allowed: true, Spent: 2, Remaining: 3, ResetAfter: time.Minute}, 3},
		{"take too much", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			return lim.Take(ctx, "k", 6)
		}, sluice.Decision{Remaining: 5, TooLarge: true, RetryAfter: sluice.MaxRetryAfter}, 5},
		{"peek", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			return lim.Peek(ctx, "k", 2)
		}, sluice.Decision{Allowed: true, Remaining: 5}, 5},
		{"take up to", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			return lim.TakeUpTo(ctx, "k", 9)
		}, sluice.Decision{Allowed: true, Spent: 5, ResetAfter: time.Minute}, 0},
		{"charge", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			return lim.Charge(ctx, "k", 9)
		}, sluice.Decision{Allowed: true, Spent: 5, ResetAfter: time.Minute}, 0},
		{"refund", func(lim *sluice.Limiter, c *testkit.Clock) (sluice.Decision, error) {
			d, err := lim.Take(ctx, "k", 3)
			if err != nil {
				return d, err
			}
			c.Advance(59 * time.Second)
			return lim.Refund(ctx, "k", 2, d)
		}, sluice.Decision{Allowed: true, Spent: -2, Remaining: 4, ResetAfter: time.Second}, 4},
		{"refund of what no longer counts", func(lim *sluice.Limiter, c *testkit.Clock) (sluice.Decision, error) {
			d, err := lim.Take(ctx, "k", 3)
			if err != nil {
				return d, err
			}
			c.Advance(time.Minute)
			return lim.Refund(ctx, "k", 3, d)
		}, sluice.Decision{Allowed: true, Remaining: 5}, 5},
		{"reserve", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			if d, err := lim.Take(ctx, "k", 5); err != nil {
				return d, err
			}
			return lim.Reserve(ctx, "k", 1, time.Minute)
		}, sluice.Decision{Allowed: true, Spent: 1, ResetAfter: 2 * time.Minute, Delay: time.Minute}, 0},
		{"reserve too late", func(lim *sluice.Limiter, _ *testkit.Clock) (sluice.Decision, error) {
			if d, err := lim.Take(ctx, "k", 5); err != nil {
				return d, err
			}
			return lim.Reserve(ctx, "k", 1, time.Minute-time.Microsecond)
		}, sluice.Decision{RetryAfter: time.Minute, ResetAfter: time.Minute}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := testkit.NewClock()
			lim := testkit.Limiter(t, memstore.New(memstore.Options{Now: now.Now}), "test", "5/min sliding-log")
			got := must(t)(c.do(lim, now))
			got.At, got.Due = 0, 0
			if got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
			if left := must(t)(lim.Peek(ctx, "k", 0)).Remaining; left != c.left {
				t.Errorf("%d units left, want %d", left, c.left)
			}
			if other := must(t)(lim.Peek(ctx, "another", 5)); !other.Allowed {
				t.Errorf("another key: %+v, want it untouched", other)
			}
		})
	}
}

func TestLimiterReset(t *testing.T) {
	lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "5/hour sliding-log")
	must(t)(lim.Take(t.Context(), "k", 5))
	if err := lim.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if d := must(t)(lim.Take(t.Context(), "k", 5)); !d.Allowed {
		t.Errorf("after a reset: %+v, want allowed", d)
	}
}

func TestLimitersOfOneScopeShareItsBudget(t *testing.T) {
	store := memstore.New(memstore.Options{})
	a, b := testkit.Limiter(t, store, "test", "5/hour"), testkit.Limiter(t, store, "test", "5/hour")
	must(t)(a.Take(t.Context(), "k", 5))
	if d := must(t)(b.Take(t.Context(), "k", 1)); d.Allowed {
		t.Errorf("the second Limiter: %+v, want denied", d)
	}
	other, err := sluice.New(store, "other", sluice.PerHour(5))
	if err != nil {
		t.Fatal(err)
	}
	if d := must(t)(other.Take(t.Context(), "k", 5)); !d.Allowed {
		t.Errorf("another scope: %+v, want allowed", d)
	}
}

func TestLimiterSettle(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name         string
		actual, left int64
		refund, more int64 // requests to the store
	}{
		{"less", 1, 9, 1, 0},
		{"nothing", 0, 10, 1, 0},
		{"as estimated", 4, 6, 0, 0},
		{"more", 7, 3, 0, 1},
		{"more than there is", 70, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &testkit.Store{Store: memstore.New(memstore.Options{Now: testkit.NewClock().Now})}
			lim := testkit.Limiter(t, store, "test", "10/min sliding-log")
			taken := must(t)(lim.Take(ctx, "k", 4))
			must(t)(lim.Settle(ctx, "k", taken, c.actual))
			if got := must(t)(lim.Peek(ctx, "k", 0)).Remaining; got != c.left {
				t.Errorf("%d units left, want %d", got, c.left)
			}
			if r, m := store.Asked(sluice.OpRefund), store.Asked(sluice.OpCharge); r != c.refund || m != c.more {
				t.Errorf("%d refunds and %d charges, want %d and %d", r, m, c.refund, c.more)
			}
		})
	}
	lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "10/min")
	var fault *sluice.RequestError
	if _, err := lim.Settle(ctx, "k", sluice.Decision{}, -1); !errors.As(err, &fault) || fault.Field != "Cost" {
		t.Errorf("a negative cost: %v, want a *RequestError", err)
	}
}

func TestLimiterCancel(t *testing.T) {
	ctx := t.Context()
	store := &testkit.Store{Store: memstore.New(memstore.Options{Now: testkit.NewClock().Now})}
	lim := testkit.Limiter(t, store, "test", "2/min sliding-log")
	must(t)(lim.Take(ctx, "k", 1))
	first := must(t)(lim.Reserve(ctx, "k", 1, time.Hour))
	denied := must(t)(lim.Take(ctx, "k", 3))
	for _, d := range []sluice.Decision{denied, {Allowed: true}, {Spent: 1}} {
		if err := lim.Cancel(ctx, "k", d); err != nil {
			t.Error(err)
		}
	}
	if got := store.Asked(sluice.OpRefund); got != 0 {
		t.Errorf("%d refunds of what was never spent, want 0", got)
	}
	if err := lim.Cancel(ctx, "k", first); err != nil {
		t.Error(err)
	}
	if d := must(t)(lim.Peek(ctx, "k", 1)); !d.Allowed {
		t.Errorf("after cancel: %+v, want allowed", d)
	}
}

// TestWaitLastsUntilDue: Wait calls the store once and returns at the reserved instant.
func TestWaitLastsUntilDue(t *testing.T) {
	for _, c := range []struct {
		limit string
		want  time.Duration // for six units, of which the first comes at once
	}{
		{"2/s token-bucket", 2 * time.Second},
		{"2/s burst 2 leaky-bucket", 2500 * time.Millisecond},
		{"2/s fixed-window", 2 * time.Second},
		{"2/s fixed-window anchor first", 2 * time.Second},
		{"2/s sliding-log", 2 * time.Second},
		{"2/s sliding-counter", 2500001 * time.Microsecond}, // at 0 and 0, and 1 µs after 1, 1.5, 2 and 2.5 s
		{"2/s sliding-counter strict", 4 * time.Second},     // at 0, 0, 1.5, 2, 3 and 4 s
		{"2/s sliding-histogram", 2 * time.Second},
	} {
		t.Run(c.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &testkit.Store{Store: memstore.New(memstore.Options{})}
				lim := testkit.Limiter(t, store, "test", c.limit)
				start := time.Now()
				for range 6 {
					d, err := lim.Wait(t.Context(), "k", 1)
					if err != nil || !d.Allowed {
						t.Fatalf("Wait = %+v, %v", d, err)
					}
					if due := d.Due.Time(); time.Now().Before(due) {
						t.Errorf("returned %v early", time.Until(due))
					}
				}
				if got := store.Asked(sluice.OpReserve); got != 6 {
					t.Errorf("the store was asked %d times, want 6", got)
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("6 units took %v, want %v", took, c.want)
				}
			})
		})
	}
}

func TestWaitServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "1/s sliding-log")
		order := make(chan int, 5)
		for i := range 5 {
			go func() {
				if _, err := lim.Wait(t.Context(), "k", 1); err != nil {
					t.Error(err)
				}
				order <- i
			}()
			synctest.Wait() // until it has reserved
		}
		for want := range 5 {
			if got := <-order; got != want {
				t.Errorf("waiter %d came as number %d", got, want)
			}
		}
	})
}

func TestWaitGivesBackWhenTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "1/min token-bucket")
		must(t)(lim.Take(t.Context(), "k", 1))
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Second, leave)
		start := time.Now()
		if _, err := lim.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("left after %v, want 30s", took)
		}
		time.Sleep(30 * time.Second)
		if d := must(t)(lim.Take(t.Context(), "k", 1)); !d.Allowed {
			t.Errorf("the place of who left: %+v, want it free", d)
		}
	})
}

// TestChargeBesideWhatIsLeft: a charge has as much room as if a caller of Wait that has left
// had never come.
func TestChargeBesideWhatIsLeft(t *testing.T) {
	var waits []time.Duration
	for _, leavers := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "1/s debt 5")
			taken := must(t)(lim.Take(t.Context(), "k", 1))
			wait := func(ctx context.Context) {
				if _, err := lim.Wait(ctx, "k", 1); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			go wait(t.Context())
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			for range leavers {
				go wait(ctx)
				synctest.Wait()
			}
			leave()
			synctest.Wait()
			must(t)(lim.Settle(t.Context(), "k", taken, 50))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			waits = append(waits, must(t)(lim.Peek(t.Context(), "k", 1)).RetryAfter)
		})
	}
	if waits[0] == 0 || waits[0] != waits[1] {
		t.Errorf("the next is denied for %v, and for %v where two have left meanwhile", waits[0], waits[1])
	}
}

func TestLoneLeaverReportsAFailedRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("store is gone")
		store := &testkit.Store{Store: memstore.New(memstore.Options{}), Before: fails(sluice.OpRefund, gone)}
		lim := testkit.Limiter(t, store, "test", "1/min")
		must(t)(lim.Take(t.Context(), "k", 1))
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := lim.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
			t.Errorf("got %v, want both errors", err)
		}
	})
}

// TestWaitReportsAFailedRefund: a caller that leaves refunds its instant itself if a thousand
// instants are free.
func TestWaitReportsAFailedRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("store is gone")
		store := &testkit.Store{Store: memstore.New(memstore.Options{}), Before: fails(sluice.OpRefund, gone)}
		lim := testkit.Limiter(t, store, "test", "1/s burst 1")
		must(t)(lim.Take(t.Context(), "k", 1))
		stays, end := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := lim.Wait(stays, "k", 1)
			over <- err
		}()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1001)
		for range cap(left) {
			go func() {
				_, err := lim.Wait(ctx, "k", 1)
				left <- err
			}()
		}
		synctest.Wait()
		leave()
		reported := 0
		for range cap(left) {
			err := <-left
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
			if errors.Is(err, gone) {
				reported++
			}
		}
		if reported != 1 {
			t.Errorf("%d asked the store, want 1", reported)
		}
		end()
		if err := <-over; !errors.Is(err, gone) {
			t.Errorf("the last: %v, want %v", err, gone)
		}
	})
}

func TestWaitDoesNotStartInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testkit.Store{Store: memstore.New(memstore.Options{})}
		lim := testkit.Limiter(t, store, "test", "1/min sliding-log")
		must(t)(lim.Take(t.Context(), "k", 1))
		start := time.Now()

		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		_, err := lim.Wait(ctx, "k", 1)
		var denied *sluice.DeniedError
		if !errors.As(err, &denied) || denied.Limit.Name != "sliding-log.min" || denied.Decision.RetryAfter != time.Minute {
			t.Errorf("with too near a deadline: %v, want a *DeniedError for 1m", err)
		} else if want := "sluice: denied by sliding-log.min: 1/min sliding-log: retry after 1m0s"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}

		if _, err := lim.Wait(t.Context(), "k", 2); !errors.As(err, &denied) || !denied.Decision.TooLarge {
			t.Errorf("more than the quota: %v, want a *DeniedError for ever", err)
		} else if !strings.Contains(err.Error(), "more than it can ever hold") {
			t.Errorf("got %q", err)
		}

		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := lim.Wait(ended, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("after its end: %v, want context.Canceled", err)
		}
		if got := store.Asked(sluice.OpReserve); got != 2 {
			t.Errorf("the store was asked %d times, want not after the end of the context", got)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("waited %v in vain", took)
		}
		lost := errors.New("no connection")
		store.Before = fails(sluice.OpReserve, lost)
		if _, err := lim.Wait(t.Context(), "k", 1); !errors.Is(err, lost) {
			t.Errorf("got %v, want the store's error", err)
		}
	})
}

func TestLimiterDoesNotAllocate(t *testing.T) {
	lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "test", "1000000/s")
	ctx := t.Context()
	must(t)(lim.Take(ctx, "k", 1))
	got := testing.AllocsPerRun(1000, func() {
		if _, err := lim.Take(ctx, "k", 1); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
