// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/remote"
)

const (
	// tolerance is how much longer a call may take, beside the time for which the machine
	// had other work: it distinguishes a late call from one that waited for the store.
	tolerance = 10
	quota     = 600 // of the hot key, in an hour: nothing comes back during a test
	plenty    = 1_000_000_000
	workers   = 8
)

// rig is a store wrapped as programs wrap it, under load.
type rig struct {
	policy           sluice.Failure
	redis            Store
	patient          Store // asks when the load is over, and may wait; nil until then
	witness          *witness
	store            *remote.Store
	hot, meter       *sluice.Limiter
	hotKey, meterKey string
	deadline         time.Duration // of calls

	stop  context.CancelFunc
	group sync.WaitGroup

	// saving has workers leave most of the hot key for what a strike shall make
	// the servers forget, however long that takes to prepare.
	saving atomic.Bool

	calls    atomic.Int64 // takes of the meter
	known    atomic.Int64 // those that the store is known to have allowed
	asked    atomic.Int64 // takes of the hot key
	denied   atomic.Int64 // those that the store denied
	degraded atomic.Int64 // and those that the policy allowed
	decided  atomic.Int64 // all decisions of the store
	unasked  atomic.Int64 // decisions and refusals of the policy
	odd      atomic.Int64 // errors that no policy explains
	longest  atomic.Int64 // ns of a call
	slow     atomic.Int64 // calls that took longer than the usual deadline
	lastOdd  atomic.Value

	mu       sync.Mutex
	receipts []sluice.Instant // of units of the hot key that the store allowed
	long     []span           // calls that took longer than tolerance times the deadline
	asleep   []span           // from when a goroutine was to be woken until it was, if that was long
}

// span is a time.
type span struct{ began, ended time.Time }

// within returns for how long s and t were at once.
func (s span) within(t span) time.Duration {
	began, ended := s.began, s.ended
	if began.Before(t.began) {
		began = t.began
	}
	if ended.After(t.ended) {
		ended = t.ended
	}
	return max(ended.Sub(began), 0)
}

// rig connects to the servers of a stage. No call may outlive the deadline.
func (c *Client) rig(t *testing.T, g *stage, policy sluice.Failure, deadline time.Duration) *rig {
	t.Helper()
	r := &rig{policy: policy, deadline: deadline, redis: c.Open(t, Target{URL: g.url, Steady: g.steady}, redisstore.Options{Timeout: max(deadline, bounds.DefaultRedisTimeout)})}
	r.witness = c.witness(r.redis)
	r.store = wrap(t, r.witness, remote.Options{Policy: policy, Timeout: deadline, Local: memstore.New(memstore.Options{})})
	r.hot = testkit.Limiter(t, r.store, "hot-"+policy.String(), fmt.Sprintf("%d/h sliding-log", quota))
	r.meter = testkit.Limiter(t, r.store, "meter-"+policy.String(), fmt.Sprintf("%d/h fixed-window anchor first", plenty))
	r.hotKey, r.meterKey = r.place(t, g, r.hot), r.place(t, g, r.meter)
	return r
}

// wrap puts a remote store around one, to be closed by its user.
func wrap(t *testing.T, store sluice.Store, opts remote.Options) *remote.Store {
	t.Helper()
	s, err := remote.Wrap(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wrapped is wrap of a store that ends with the test.
func wrapped(t *testing.T, store sluice.Store, opts remote.Options) *remote.Store {
	t.Helper()
	return testkit.Closed(t, wrap(t, store, opts))
}

// place returns a key of lim that is where the fault strikes.
func (r *rig) place(t *testing.T, g *stage, lim *sluice.Limiter) string {
	t.Helper()
	if g.holds == nil {
		return "k"
	}
	for n := range 100 {
		key := fmt.Sprint("k", n, "k")
		ask := sluice.Request{Charge: lim.Of(key, 1)}
		if _, err := r.redis.Take(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		here := g.holds(lim.Plan().Scope() + "*" + key)
		ask.Op = sluice.OpReset
		if _, err := r.redis.Take(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if here {
			return key
		}
	}
	t.Fatal("no key is where the fault strikes")
	return ""
}

// start presses until halt: two takes each few milliseconds by every worker.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.group.Go(func() { r.noteLate(ctx) })
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

// noteLate notes when the machine wakes late who sleeps: no call can be sooner.
func (r *rig) noteLate(ctx context.Context) {
	const rest, long = 5 * time.Millisecond, 20 * time.Millisecond
	for ctx.Err() == nil {
		due := time.Now().Add(rest)
		<-time.After(rest)
		if s := (span{due, time.Now()}); s.ended.Sub(s.began) > long {
			r.mu.Lock()
			r.asleep = append(r.asleep, s)
			r.mu.Unlock()
		}
	}
}

func (r *rig) halt() {
	r.stop()
	r.group.Wait()
}

// settle waits until nothing is under way.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	testkit.Until(t, "late answers and owed units", func() bool { s := r.store.Stats(); return s.InFlight == 0 && s.Owed == 0 })
}

func (r *rig) press() {
	r.calls.Add(1)
	if d, ok := r.take(r.meter, r.meterKey); ok && d.Allowed && !d.Degraded {
		r.known.Add(1)
	}
	if r.saving.Load() && r.admitted() >= quota/4 {
		return
	}
	r.asked.Add(1)
	switch d, ok := r.take(r.hot, r.hotKey); {
	case !ok:
	case d.Allowed && d.Degraded:
		r.degraded.Add(1)
	case d.Allowed:
		r.mu.Lock()
		r.receipts = append(r.receipts, d.At)
		r.mu.Unlock()
	case !d.Degraded:
		r.denied.Add(1)
	}
}

// admitted returns how many units of the hot key the store has allowed.
func (r *rig) admitted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.receipts))
}

// sorted returns the receipts of all that were admitted, in their order.
func (r *rig) sorted() []sluice.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.receipts))
}

// forget drops the receipts, which are the test's and no part of what is tested.
func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receipts, r.long, r.asleep = nil, nil, nil
}

// notices returns a function that reports whether the store has noticed a fault that begins
// now, in which the servers answer with a word or, if that is empty, anything. On a busy
// machine the store may be unavailable already.
func (r *rig) notices(word string) func() bool {
	outages, refusals := r.store.Stats().Outages, r.witness.refusals(word)
	return func() bool {
		down := r.store.Stats().Outages > outages || r.store.Err() != nil
		return down && (word == "" || r.witness.refusals(word) > refusals)
	}
}

// take takes one unit. It reports whether there was a decision.
func (r *rig) take(lim *sluice.Limiter, key string) (sluice.Decision, bool) {
	began := time.Now()
	d, err := lim.Take(context.Background(), key, 1)
	ended := time.Now()
	took := ended.Sub(began)
	if took > bounds.DefaultTimeout {
		r.slow.Add(1)
	}
	if took > tolerance*r.deadline {
		r.mu.Lock()
		r.long = append(r.long, span{began, ended})
		r.mu.Unlock()
	}
	for longest := r.longest.Load(); int64(took) > longest && !r.longest.CompareAndSwap(longest, int64(took)); {
		longest = r.longest.Load()
	}
	_, refused := errors.AsType[*remote.UnavailableError](err)
	switch {
	case err == nil && !d.Degraded:
		r.decided.Add(1)
	case err == nil || refused && r.policy == sluice.FailClosed:
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
	testkit.Until(t, "the store to be healthy", func() bool {
		all := true
		for i, r := range rigs {
			switch {
			case took[i] > 0:
				continue
			case before[i] > 0 && r.decided.Load() >= before[i]:
				took[i] = time.Since(began)
				continue
			case before[i] == 0 && r.store.Err() == nil:
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
	err := errors.Join(r.store.Close(), r.redis.Close())
	if r.patient != nil {
		err = errors.Join(err, r.patient.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// spent asks the server how many units the key of a limiter has spent.
func (r *rig) spent(t *testing.T, lim *sluice.Limiter) int64 {
	t.Helper()
	key := r.hotKey
	if lim == r.meter {
		key = r.meterKey
	}
	return testkit.Spent(t, r.patient, lim.Plan(), key)
}
