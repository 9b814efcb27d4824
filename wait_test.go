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
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// wait starts a caller of Wait. Once it waits or has returned, wait returns a function that
// ends it and the channel of its decision.
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
func counted(t *testing.T, text string) (*sluice.Limiter, *testkit.Store) {
	t.Helper()
	store := &testkit.Store{Store: memstore.New(memstore.Options{})}
	return testkit.Limiter(t, store, "test", text), store
}

// TestWhatIsLeftGoesToTheNext: the callers behind move up, the next caller takes a free
// instant without a call, and a free instant that is due is given back.
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

// TestTakeAfterManyLeft: for a take, instants that waiters have left stay spent until they are
// due; the next waiter gets them.
func TestTakeAfterManyLeft(t *testing.T) {
	for _, text := range []string{"2/10s", "2/10s sliding-log"} {
		synctest.Test(t, func(t *testing.T) {
			lim, _ := counted(t, text)
			must(t)(lim.Take(t.Context(), "k", 2))
			var leave []func()
			for range 12 {
				l, _ := wait(t, lim, 1)
				leave = append(leave, l)
			}
			for _, l := range leave {
				l()
			}
			start := time.Now()
			if d := must(t)(lim.Take(t.Context(), "k", 1)); d.Allowed || d.RetryAfter != time.Minute {
				t.Errorf("%s: a take is allowed: %v, or in %v, want in a minute", text, d.Allowed, d.RetryAfter)
			}
			d := must(t)(lim.Wait(t.Context(), "k", 1))
			if waited := time.Since(start); waited > 10*time.Second || waited != d.Delay {
				t.Errorf("%s: the next waited for %v, by its decision %v", text, waited, d.Delay)
			}
			time.Sleep(time.Until(start.Add(time.Minute)))
			if d := must(t)(lim.Take(t.Context(), "k", 1)); !d.Allowed {
				t.Errorf("%s: after a minute a take is denied for %v", text, d.RetryAfter)
			}
		})
	}
}

// TestWaitAndClocks: the store's clock determines the delay, and the time package measures it,
// with the default clock and with another.
func TestWaitAndClocks(t *testing.T) {
	frozen := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, now := range map[string]func() time.Time{"default": nil, "standing still": func() time.Time { return frozen }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim := testkit.Limiter(t, memstore.New(memstore.Options{Now: now}), "test", "1/h burst 1")
				must(t)(lim.Take(t.Context(), "k", 1))
				began := time.Now()
				if d := must(t)(lim.Wait(t.Context(), "k", 1)); d.Delay != time.Hour || time.Since(began) != time.Hour {
					t.Errorf("delay %v, waited %v, want 1h", d.Delay, time.Since(began))
				}
			})
		})
	}
}

// TestLoneLeaver: a single caller that leaves gives back its instant, and so does the last of
// several.
func TestLoneLeaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 10")
		must(t)(lim.Take(t.Context(), "k", 8))
		leave, _ := wait(t, lim, 10) // at 8 s
		leave()
		if d := must(t)(lim.Take(t.Context(), "k", 1)); !d.Allowed || d.Remaining != 1 {
			t.Errorf("%+v, want 1 left behind", d)
		}
		first, _ := wait(t, lim, 10)  // at 9 s
		second, _ := wait(t, lim, 10) // at 19 s
		second()
		if n := store.Asked(sluice.OpRefund); n != 1 {
			t.Errorf("%d refunds while another waits, want 1", n)
		}
		first()
		if n := store.Asked(sluice.OpRefund); n != 2 {
			t.Errorf("%d refunds once all have left, want 2", n)
		}
		asked := store.Calls()
		_, next := wait(t, lim, 10)
		if d := <-next; d.Delay != 9*time.Second || store.Calls() != asked {
			t.Errorf("the next is delayed %v after %d calls, want 9s and none", d.Delay, store.Calls()-asked)
		}
	})
}

// TestWhatIsFreeIsGivenBack: a free instant is given back once, in the same call, before a
// wait for another cost or a reset of the key.
func TestWhatIsFreeIsGivenBack(t *testing.T) {
	ask := map[string]func(context.Context, *sluice.Limiter) error{
		"wait": func(ctx context.Context, l *sluice.Limiter) error {
			_, err := l.Wait(ctx, "k", 2)
			return err
		},
		"reset": func(ctx context.Context, l *sluice.Limiter) error { return l.Reset(ctx, "k") },
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, store := counted(t, "10/s fixed-window")
				must(t)(lim.Take(t.Context(), "k", 10))
				time.Sleep(100 * time.Millisecond)
				first, _ := wait(t, lim, 9)
				second, _ := wait(t, lim, 9)
				second()
				first() // the instant at 1 s is left
				asked := store.Calls()
				if err := ask(t.Context(), lim); err != nil {
					t.Error(err)
				}
				if got := store.Calls(); got != asked+1 {
					t.Errorf("%d calls, want 1", got-asked)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := store.Asked(sluice.OpRefund); got != 2 {
					t.Errorf("%d refunds, want 2", got)
				}
			})
		})
	}
}

// TestWhatIsFreeIsKept: callers that do not wait, or that use another key, do not get a free
// instant.
func TestWhatIsFreeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 1")
		taken := must(t)(lim.Take(t.Context(), "k", 1))
		first, _ := wait(t, lim, 1)
		second, _ := wait(t, lim, 1)
		second()
		first() // one of the two is left
		must(t)(lim.Peek(t.Context(), "k", 1))
		must(t)(lim.Settle(t.Context(), "k", taken, 1))
		must(t)(lim.Take(t.Context(), "k", 1))
		must(t)(lim.TakeUpTo(t.Context(), "k", 1))
		must(t)(lim.Wait(t.Context(), "other", 1))
		if n := store.Asked(sluice.OpRefund); n != 1 {
			t.Errorf("%d refunds, want 1", n)
		}
		asked := store.Calls()
		_, next := wait(t, lim, 1)
		if d := <-next; d.Delay != time.Second || store.Calls() != asked {
			t.Errorf("the next is delayed %v after %d calls, want 1s and none", d.Delay, store.Calls()-asked)
		}
	})
}

// TestEachLimiterKeepsItsOwn: for another Limiter of the scope an instant that was left stays
// spent until it is due; for a copy of the Limiter it is free.
func TestEachLimiterKeepsItsOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		copy bool
		want bool
	}{{"a copy", true, true}, {"another", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, store := counted(t, "1/s burst 10")
				other := testkit.Limiter(t, store, "test", "1/s burst 10")
				if c.copy {
					other = new(*lim)
				}
				must(t)(lim.Take(t.Context(), "k", 10))
				first, _ := wait(t, lim, 10)
				second, _ := wait(t, lim, 10)
				second()
				first() // the instant at 10 s is left
				asked := store.Calls()
				_, next := wait(t, other, 10)
				if took := store.Calls() == asked; took != c.want {
					t.Errorf("takes what is left: %t, want %t", took, c.want)
				}
				<-next
				time.Sleep(time.Minute)
				if d := must(t)(other.Take(t.Context(), "k", 10)); !d.Allowed {
					t.Errorf("after it was due: %+v, want allowed", d)
				}
			})
		})
	}
}

// TestWhatCannotBeGivenBack: a failed refund is not an error of the next caller; the units
// stay spent.
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
		leave, _ := wait(t, lim, 10)
		_, stays := wait(t, lim, 10)
		leave() // frees an instant, which the next caller gives back
		if err := lim.Reset(t.Context(), "k"); err != nil {
			t.Error(err)
		}
		<-stays
		must(t)(lim.Charge(t.Context(), "k", 10))
		leave, _ = wait(t, lim, 10)
		_, stays = wait(t, lim, 10)
		leave() // frees an instant, which is given back when it is due
		<-stays
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := store.Asked(sluice.OpRefund); n != 2 {
			t.Errorf("%d refunds, want 2", n)
		}
	})
}

// TestWhoWaitsForNothing: a caller that need not wait gives nothing back.
func TestWhoWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store := counted(t, "1/s burst 1 debt 9")
		must(t)(lim.Charge(t.Context(), "k", 5))
		leave, _ := wait(t, lim, 0)
		_, stays := wait(t, lim, 0)
		leave()
		if d := <-stays; d.Delay <= 0 {
			t.Errorf("one of cost 0 is delayed %v by a debt, want some time", d.Delay)
		}
		if n := store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds, want none", n)
		}
	})
}
