// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/denycache"
	"github.com/sluicegate/sluice/failure"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

const (
	// tolerance is how much longer a call may take where the machine has other
	// work: it tells a call that was late from one that waited for the store.
	tolerance = 10
	quota     = 300 // of the hot key, in an hour: nothing comes back during a test
	workers   = 8
)

// rig is a store wrapped as programs wrap it, under load.
type rig struct {
	policy     failure.Policy
	redis      *redisstore.Store
	store      *failure.Store
	hot, meter *sluice.Limiter

	stop  context.CancelFunc
	group sync.WaitGroup

	calls    atomic.Int64 // takes of the meter
	known    atomic.Int64 // those that the store is known to have allowed
	asked    atomic.Int64 // takes of the hot key
	admitted atomic.Int64 // those that the store allowed
	degraded atomic.Int64 // and those that the policy did
	decided  atomic.Int64 // all decisions of the store
	unasked  atomic.Int64 // decisions and refusals of the policy
	odd      atomic.Int64 // errors that no policy explains
	longest  atomic.Int64 // ns of a call
	lastOdd  atomic.Value
}

// newRig connects to the servers of a URL. No call may outlive the deadline.
func newRig(t *testing.T, url string, policy failure.Policy, deadline time.Duration) *rig {
	t.Helper()
	target, err := redisurl.Parse(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{policy: policy}
	if r.redis, err = target.Open(redisstore.Options{Timeout: max(deadline, redisstore.DefaultTimeout)}); err != nil {
		t.Fatal(err)
	}
	if r.store, err = failure.Wrap(denycache.Wrap(r.redis, denycache.Options{}), failure.Options{Policy: policy, Timeout: deadline}); err != nil {
		t.Fatal(err)
	}
	r.hot = limiter(t, r.store, "hot-"+policy.String(), "300/h sliding-log")
	r.meter = limiter(t, r.store, "meter-"+policy.String(), "1000000000/h fixed-window anchor first")
	return r
}

func limiter(t *testing.T, store sluice.Store, scope, text string) *sluice.Limiter {
	t.Helper()
	l, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := sluice.New(store, scope, l)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// start presses until halt: two takes each few milliseconds by every worker.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	for range workers {
		r.group.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				r.press() //nolint:contextcheck // the deadline is the store's: no call may end because the load does
			}
		})
	}
}

func (r *rig) halt() {
	r.stop()
	r.group.Wait()
}

func (r *rig) press() {
	r.calls.Add(1)
	if d, ok := r.take(r.meter); ok && d.Allowed && !d.Degraded {
		r.known.Add(1)
	}
	r.asked.Add(1)
	switch d, ok := r.take(r.hot); {
	case !ok || !d.Allowed:
	case d.Degraded:
		r.degraded.Add(1)
	default:
		r.admitted.Add(1)
	}
}

// take takes one unit. It reports whether there was a decision.
func (r *rig) take(lim *sluice.Limiter) (sluice.Decision, bool) {
	began := time.Now()
	d, err := lim.Take(context.Background(), "k", 1)
	took := int64(time.Since(began))
	for {
		longest := r.longest.Load()
		if took <= longest || r.longest.CompareAndSwap(longest, took) {
			break
		}
	}
	_, refused := errors.AsType[*failure.UnavailableError](err)
	switch {
	case err == nil && !d.Degraded:
		r.decided.Add(1)
	case err == nil || refused && r.policy == failure.Closed:
		r.unasked.Add(1)
	default:
		r.odd.Add(1)
		r.lastOdd.Store(err.Error())
	}
	return d, err == nil
}

// awaitStore waits until the requests of all rigs go to the store again and it
// has decided one of each, and logs how long that took.
func awaitStore(t *testing.T, rigs []*rig) {
	t.Helper()
	began := time.Now()
	before := make([]int64, len(rigs)) // decisions when it was healthy, 1 more; 0: not yet
	took := make([]time.Duration, len(rigs))
	waitFor(t, "the store to be healthy", func() bool {
		all := true
		for i, r := range rigs {
			switch {
			case took[i] > 0:
				continue
			case before[i] > 0 && r.decided.Load() >= before[i]:
				took[i] = time.Since(began)
				continue
			case before[i] == 0 && r.store.Healthy():
				before[i] = r.decided.Load() + 1
			}
			all = false
		}
		return all
	})
	for i, r := range rigs {
		t.Logf("%-6v back on the store after %v", r.policy, took[i].Round(time.Millisecond))
	}
}

// close ends the stores.
func (r *rig) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.store.Close(), r.redis.Close()); err != nil {
		t.Error(err)
	}
}

// spent asks the server how many units the meter's key has spent.
func (r *rig) spent(t *testing.T) int64 {
	t.Helper()
	d, err := r.redis.Take(t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: r.meter.Of("k", 0)})
	if err != nil {
		t.Fatal(err)
	}
	return 1000000000 - d.Remaining
}

// waitFor asks until is says that it is so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("wait for %s: in vain", what)
		}
	}
}
