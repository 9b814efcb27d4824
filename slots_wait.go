// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clock"
)

// leastPause and mostPause bound the pause of [Slots.Wait] after a denial.
const (
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
)

// renewals is how often a slot is renewed in its TTL; retries is how often if the store
// does not answer.
const (
	renewals = 3
	retries  = 12
)

// ErrSlotLost is the cause with which the context of a slot from [Slots.Wait] ends if
// nobody released it: the store did not renew it within its TTL, or no longer knows it.
var ErrSlotLost = errors.New("sluice: the slot is lost; another may hold it")

// Wait blocks until cost units of key are free and keeps them until release is called:
//
//	held, release, err := slots.Wait(ctx, "job", 1)
//	if err != nil {
//		return err
//	}
//	defer release()
//	return work(held)
//
// It returns ctx's error if ctx ends first, a [*RequestError] at once if cost is more
// than the Cap, and the store's error at once; it keeps no unit then. It asks again after
// 10 ms and then after pauses that double, up to 1 s, or sooner if leases expire before.
// Waiting callers are not served in order, and a large cost may wait long among small
// ones. Each call is an owner of its own.
//
// One goroutine renews the units every third of their TTL until release is called, also
// after ctx ends, and more often while the store does not answer. The context held is
// ctx's child. It ends with release, or with the cause [ErrSlotLost] when the units are
// lost: at once if the store reports it, else a TTL after the last answered renewal was
// sent.
//
// Release ends the context and the goroutine and gives the units back. Any goroutine may
// call it, more than once; it blocks for a second at most. If the store does not answer,
// the units are free when the TTL has passed.
func (s *Slots) Wait(ctx context.Context, key string, cost int64) (held context.Context, release func(), err error) {
	owner := rand.Text()
	sent, err := s.await(ctx, key, owner, cost)
	if err != nil {
		return nil, nil, err
	}
	held, end := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if why := s.keep(renewing, key, owner, sent); why != nil {
			end(why)
		}
	}()
	var once sync.Once
	return held, func() {
		once.Do(func() {
			end(nil)
			stop()
			<-done
			s.letGo(ctx, key, owner)
		})
	}, nil
}

// await acquires units when they are free, and returns the instant at which it asked for them.
func (s *Slots) await(ctx context.Context, key, owner string, cost int64) (sent time.Time, err error) {
	if cost > s.limit.Cap {
		return sent, &RequestError{"Cost", fmt.Sprintf("%d is more than the cap of %d", cost, s.limit.Cap)}
	}
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		sent = time.Now()
		d, err := s.Acquire(ctx, key, owner, cost)
		switch {
		case err != nil:
			if !unsent(err) {
				s.letGo(ctx, key, owner)
			}
			return sent, err
		case d.Allowed:
			return sent, nil
		}
		wait := clock.Jitter(pause)
		if d.RetryAfter > 0 {
			wait = min(wait, d.RetryAfter+clock.Jitter(leastPause))
		}
		if !sleep(ctx, wait) {
			return sent, ctx.Err()
		}
	}
}

// keep renews units until ctx ends. If they are lost, it returns the reason. sent is the
// instant at which the request that acquired them was sent.
func (s *Slots) keep(ctx context.Context, key, owner string, sent time.Time) error {
	every := s.limit.TTL / renewals
	last := error(nil)
	for next := sent.Add(every); sleep(ctx, time.Until(next)); {
		now, end := time.Now(), sent.Add(s.limit.TTL)
		if !now.Before(end) {
			return fmt.Errorf("%w: not renewed within %v: %w", ErrSlotLost, s.limit.TTL, last)
		}
		within, cancel := context.WithTimeout(ctx, min(every, end.Sub(now)))
		d, err := s.Renew(within, key, owner)
		cancel()
		switch {
		case err != nil:
			next, last = time.Now().Add(s.limit.TTL/retries), err
			if next.After(end) {
				next = end
			}
		case !d.Allowed:
			return fmt.Errorf("%w: the store no longer knows it", ErrSlotLost)
		default:
			sent, next = now, now.Add(every)
		}
	}
	return nil
}

// letGo gives back the units of owner. If that fails, they are free when their TTL has passed.
func (s *Slots) letGo(ctx context.Context, key, owner string) {
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	_, _ = s.Release(ctx, key, owner)
}

// unsent reports whether an error says that its request has spent nothing.
func unsent(err error) bool {
	_, refused := errors.AsType[*RequestError](err)
	_, unsent := errors.AsType[*NotSentError](err)
	return refused || unsent || errors.Is(err, ErrNoSlots)
}

// sleep waits for d, or until ctx ends: then it reports false.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
