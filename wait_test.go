// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/memstore"
)

// wait starts a caller of Wait and returns, once it waits or is done, what ends it and
// where its decision comes.
func wait(t *testing.T, lim *sluice.Limiter, cost int64) (leave func(), came <-chan sluice.Decision) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan sluice.Decision, 1)
	go func() {
		defer cancel()
		switch d, err := lim.Wait(ctx, "k", cost); {
		case err == nil:
			done <- d
		case err != context.Canceled: //nolint:errorlint // nothing may be joined to it
			t.Errorf("Wait = %v, want a decision or context.Canceled alone", err)
		}
	}()
	synctest.Wait()
	return func() {
		cancel()
		synctest.Wait()
	}, done
}

// counted returns a limiter on a store in memory that counts.
func counted(t *testing.T, text string) (*sluice.Limiter, *storekit.Store) {
	t.Helper()
	store := &storekit.Store{Store: memstore.New(memstore.Options{})}
	return storekit.Limiter(t, store, "test", text), store
}

// TestWhatIsLeftGoesToTheNext: those behind move up, the next takes what is free
// without a call, and what is due and free is given back.
func TestWhatIsLeftGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 1")
		start := time.Now()
		must(t)(lim.Take(t.Context(), "k", 1))
		first, _ := wait(t, lim, 1)  // at 1 s
		second, _ := wait(t, lim, 1) // at 2 s
		_, stays := wait(t, lim, 1)  // at 3 s
		first()
		second()
		asked := store.Calls()
		_, next := wait(t, lim, 1)
		if got := store.Calls(); got != asked {
			t.Errorf("the store was asked %d times though an instant was free", got-asked)
		}
		for i, came := range []<-chan sluice.Decision{stays, next} {
			d, want := <-came, time.Duration(i+1)*time.Second
			if after := time.Since(start); after != want || d.Delay != want || d.Due != sluice.InstantOf(start.Add(want)) || d.ResetAfter != time.Second {
				t.Errorf("after %v, want %v: %+v", after, want, d)
			}
		}
		if n := store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds before the free instant is due, want none", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := store.Asked(sluice.OpRefund); n != 1 {
			t.Errorf("%d refunds once it is due, want 1", n)
		}
	})
}

// TestWhoDoesNotWaitHasWhatIsFree: what is left of a key is given back, once and in the
// same call, before another operation takes of it.
func TestWhoDoesNotWaitHasWhatIsFree(t *testing.T) {
	ask := map[string]func(context.Context, *sluice.Limiter) (sluice.Decision, error){
		"take":       func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) { return l.Take(ctx, "k", 2) },
		"take up to": func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) { return l.TakeUpTo(ctx, "k", 9) },
		"charge":     func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) { return l.Charge(ctx, "k", 2) },
		"wait":       func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) { return l.Wait(ctx, "k", 2) },
		"reserve": func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) {
			return l.Reserve(ctx, "k", 2, time.Minute)
		},
		"reset": func(ctx context.Context, l *sluice.Limiter) (sluice.Decision, error) {
			return sluice.Decision{Allowed: true, Spent: 2}, l.Reset(ctx, "k")
		},
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, store := counted(t, "1/s burst 10")
				must(t)(lim.Take(t.Context(), "k", 8))
				leave, _ := wait(t, lim, 10) // at 8 s
				leave()
				asked := store.Calls()
				d := must(t)(ask(t.Context(), lim))
				if !d.Allowed || d.Spent != 2 || d.Delay != 0 {
					t.Errorf("%+v, want 2 units at once", d)
				}
				if got := store.Calls(); got != asked+1 {
					t.Errorf("%d calls, want 1", got-asked)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := store.Asked(sluice.OpRefund); got != 1 {
					t.Errorf("%d refunds, want 1", got)
				}
			})
		})
	}
}

// TestWhatIsFreeIsKept from those who take nothing, whose context has ended, or who
// are of another key.
func TestWhatIsFreeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 1")
		taken := must(t)(lim.Take(t.Context(), "k", 1))
		leave, _ := wait(t, lim, 1)
		leave()
		ended, end := context.WithCancel(t.Context())
		end()
		must(t)(lim.Peek(t.Context(), "k", 1))
		must(t)(lim.Settle(t.Context(), "k", taken, 1))
		must(t)(lim.Take(ended, "k", 1))
		must(t)(lim.Take(t.Context(), "other", 1))
		if n := store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds, want none", n)
		}
		asked := store.Calls()
		_, next := wait(t, lim, 1)
		if d := <-next; d.Delay != time.Second || store.Calls() != asked {
			t.Errorf("the next is held back %v after %d calls, want 1s and none", d.Delay, store.Calls()-asked)
		}
	})
}

// TestEachLimiterKeepsItsOwn: to another Limiter of the scope what is left is taken
// until it is due; to a copy it is free.
func TestEachLimiterKeepsItsOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		copy bool
		want bool
	}{{"a copy", true, true}, {"another", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, store := counted(t, "1/s burst 10")
				other := storekit.Limiter(t, store, "test", "1/s burst 10")
				if c.copy {
					other = new(*lim)
				}
				must(t)(lim.Take(t.Context(), "k", 8))
				leave, _ := wait(t, lim, 10)
				leave()
				if d := must(t)(other.Take(t.Context(), "k", 1)); d.Allowed != c.want {
					t.Errorf("%+v, want allowed = %t", d, c.want)
				}
				time.Sleep(9 * time.Second)
				if d := must(t)(other.Take(t.Context(), "k", 1)); !d.Allowed {
					t.Errorf("after it was due: %+v, want allowed", d)
				}
			})
		})
	}
}

// TestWhatCannotBeGivenBack is no error of who comes next: it stays taken.
func TestWhatCannotBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 10")
		gone := errors.New("the refund is lost")
		store.After = func(req sluice.Request, _ sluice.Result) error {
			if req.Op == sluice.OpRefund {
				return gone
			}
			return nil
		}
		must(t)(lim.Take(t.Context(), "k", 8))
		for range 2 { // one is given back by who comes, the other when it is due
			leave, _ := wait(t, lim, 10)
			leave()
			must(t)(lim.Charge(t.Context(), "k", 0))
			time.Sleep(time.Minute)
			leave, _ = wait(t, lim, 10)
			leave()
			time.Sleep(time.Minute)
		}
		lost := errors.New("no connection")
		leave, _ := wait(t, lim, 10)
		leave()
		store.Before = fails(sluice.OpTake, lost)
		if _, err := lim.Take(t.Context(), "k", 1); !errors.Is(err, lost) {
			t.Errorf("Take = %v, want the store's error", err)
		}
	})
}

// TestWhoWaitsForNothing gives nothing back.
func TestWhoWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 1 debt 9")
		must(t)(lim.Charge(t.Context(), "k", 5))
		leave, _ := wait(t, lim, 0)
		_, stays := wait(t, lim, 0)
		leave()
		if d := <-stays; d.Delay <= 0 {
			t.Errorf("one of cost 0 is held back %v by a debt, want some time", d.Delay)
		}
		if n := store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds, want none", n)
		}
	})
}
