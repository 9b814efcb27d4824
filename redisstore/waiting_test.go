// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// waitedFor are limits of every algorithm; none of them divides evenly.
var waitedFor = []string{
	"1/s burst 1", "3/s burst 2", "4/10s interval-refill burst 3",
	"3/s burst 200 leaky-bucket", "3/s burst 2 leaky-bucket nodelay",
	"3/10s fixed-window", "3/10s fixed-window anchor first",
	"3/10s sliding-log", "7/10s sliding-histogram precision 3",
	"3/10s sliding-counter", "3/10s sliding-counter strict", "3/10s sliding-counter conservative",
	"3/10s sliding-counter sub-windows 4", "3/10s sliding-counter sub-windows 4 conservative",
	"2/1m burst 2", "3/2m fixed-window", "3/2m sliding-log", "3/2m sliding-counter",
}

// ways are the two ways in which a request waits: in a front, and in the library.
var ways = map[string]func(*crowd) way{"front": newFrontWay, "limiter": newLimiterWay}

// way is how a request of a user waits.
type way struct {
	// take blocks until the request proceeds. It returns false if the request left before the
	// end of its wait.
	take func(ctx context.Context, user string, cost int64) (d sluice.Decision, key string, ok bool)
	held func() int // how many wait now
}

func newFrontWay(c *crowd) way {
	c.t.Helper()
	r := policy.NewRule("api", policy.Header("X-User"), c.limit)
	r.Cost = policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 9}
	r.MaxWait = sluice.MaxWait
	queue := evaluate.NewQueue(1000)
	front, err := evaluate.New(evaluate.Options{
		Store: c.store, Rules: []policy.Rule{r}, Queue: queue,
		OnError: func(_ context.Context, _ policy.Attributes, err error) { c.t.Errorf("reported: %v", err) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return way{held: func() int { return queue.Stats().Held }, take: func(ctx context.Context, user string, cost int64) (sluice.Decision, string, bool) {
		a := (&policy.Request{Headers: map[string][]string{"X-User": {user}, "X-Cost": {strconv.FormatInt(cost, 10)}}}).Attributes()
		var call evaluate.Call
		front.Decide(ctx, a, &call)
		if !call.Verdict.Passes() && call.Verdict != evaluate.Abandoned {
			c.t.Errorf("%v: %+v", call.Verdict, call.Decision)
		}
		return call.Decision, call.Charge.Key, call.Verdict.Passes()
	}}
}

func newLimiterWay(c *crowd) way {
	c.t.Helper()
	lim, err := sluice.New(c.store, "api", c.limit)
	if err != nil {
		c.t.Fatal(err)
	}
	var held atomic.Int64
	return way{held: func() int { return int(held.Load()) }, take: func(ctx context.Context, user string, cost int64) (sluice.Decision, string, bool) {
		held.Add(1)
		defer held.Add(-1)
		d, err := lim.Wait(ctx, user, cost)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.t.Errorf("%v: %+v", err, d)
		}
		return d, user, err == nil
	}}
}

// far is a Store on a real server for use in a bubble. The server has the bubble's clock. Only
// a goroutine outside the bubble calls the server.
type far struct {
	store  *Store
	now    atomic.Int64
	mu     sync.Mutex
	asked  chan func()
	served chan struct{}
}

func newFar(t *testing.T, server *redistest.Server) *far {
	t.Helper()
	o := &far{store: bare(server.Client(t)), asked: make(chan func()), served: make(chan struct{})}
	o.store.options.Prefix = strconv.FormatUint(rand.Uint64(), 36)
	o.store.keyer.prefix = o.store.options.Prefix
	o.store.inject = o.now.Load
	go func() {
		for ask := range o.asked {
			ask()
			o.served <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(o.asked) })
	return o
}

// do has the goroutine outside call f at the bubble's current time.
func (o *far) do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Store(time.Now().UnixMicro())
	o.asked <- f
	<-o.served
}

func (o *far) Take(ctx context.Context, req sluice.Request) (d sluice.Decision, err error) {
	o.do(func() { d, err = o.store.Take(context.WithoutCancel(ctx), req) })
	return
}

func (o *far) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) (err error) {
	o.do(func() { err = o.store.TakeBatch(context.WithoutCancel(ctx), reqs, out) })
	return
}

// eachWaitedFor runs a test in a bubble for every algorithm on both stores, in both ways
// of waiting. In make check one of them waits for a real server.
func eachWaitedFor(t *testing.T, test func(t *testing.T, c *crowd)) {
	server := redistest.Shared(t, redistest.Redis(t))
	for i, text := range waitedFor {
		for by, wait := range ways {
			for name, store := range map[string]sluice.Store{"memory": nil, "redis": newFar(t, server)} {
				t.Run(text+"/"+name+"/"+by, func(t *testing.T) {
					if name == "redis" && (by == "front") != (i%2 == 0) {
						testkit.Long(t)
					}
					synctest.Test(t, func(t *testing.T) { test(t, newCrowd(t, text, store, wait)) })
				})
			}
		}
	}
}

// crowd is a set of requests that wait for a limit.
type crowd struct {
	t     *testing.T
	limit sluice.Limit
	store *testkit.Store
	way
	start  time.Time
	mu     sync.Mutex
	all    sync.WaitGroup
	number int
	ran    map[string][]ran
	spent  map[receiptKey]int // instants that the store has granted, less those given back
}

type ran struct {
	number int // position in the order of arrival
	cost   int64
	after  time.Duration // since the start
	receiptKey
}

type receiptKey struct {
	user    string
	cost    int64
	at, due sluice.Instant
}

func newCrowd(t *testing.T, text string, store sluice.Store, wait func(*crowd) way) *crowd {
	t.Helper()
	if store == nil {
		store = memstore.New(memstore.Options{})
	}
	c := &crowd{t: t, limit: sluice.MustParseLimit(text), start: time.Now(), ran: make(map[string][]ran), spent: make(map[receiptKey]int)}
	c.store = &testkit.Store{Store: store, After: c.note}
	c.way = wait(c)
	return c
}

// note records the instants that the store has granted and those given back.
func (c *crowd) note(req sluice.Request, r sluice.Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &r.Decision
	switch {
	case r.Err != nil:
	case req.Op == sluice.OpRefund:
		c.spent[receiptKey{req.Key, req.Cost, req.At, req.Due}]--
	case d.Allowed:
		c.spent[receiptKey{req.Key, req.Cost, d.At, d.Due}]++
	}
	return nil
}

// send starts a request and returns a function that ends it, once the request waits or is
// decided.
func (c *crowd) send(user string, cost int64) (hangUp func()) {
	c.number++
	number := c.number
	ctx, cancel := context.WithCancel(c.t.Context())
	c.all.Go(func() {
		defer cancel()
		d, key, ok := c.take(ctx, user, cost)
		if !ok {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		receipt := receiptKey{key, cost, d.At, d.Due}
		c.spent[receipt]--
		c.ran[user] = append(c.ran[user], ran{number, cost, time.Since(c.start), receipt})
	})
	synctest.Wait()
	return cancel
}

// fill sends requests of a user until n more are delayed.
func (c *crowd) fill(user string, n int) (ends []func()) {
	for want := c.held() + n; c.held() < want; {
		held := c.held()
		if end := c.send(user, 1); c.held() > held {
			ends = append(ends, end)
		}
	}
	return ends
}

// leave calls the functions that end requests.
func (c *crowd) leave(ends []func()) {
	for _, end := range ends {
		end()
	}
	synctest.Wait()
}

// over waits until no request waits and all instants have passed, and checks that the requests
// that ran are those that the store granted, less those given back.
func (c *crowd) over() {
	c.t.Helper()
	c.all.Wait()
	time.Sleep(sluice.MaxWait)
	synctest.Wait()
	for key, n := range c.spent {
		if n != 0 {
			c.t.Errorf("%+v was given by the store %d times more than it was used or given back", key, n)
		}
	}
	if n := c.held(); n != 0 {
		c.t.Errorf("%d are held at the end", n)
	}
}

// instants returns when a user's requests ran, in the order of their arrival.
func (c *crowd) instants(user string) (list []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.ran[user])
	slices.SortFunc(all, func(a, b ran) int { return a.number - b.number })
	for _, r := range all {
		list = append(list, r.after)
	}
	return list
}

// TestHalfOfTheWaitersLeave: if 20 of 40 waiters leave, the others and later ones are served
// in order, at the same instants as if the 20 had never come.
func TestHalfOfTheWaitersLeave(t *testing.T) {
	eachWaitedFor(t, func(t *testing.T, c *crowd) {
		rnd := rand.New(rand.NewPCG(1, 2))
		c.fill("never", 20)
		ends := c.fill("left", 40)
		rnd.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		c.leave(ends[:20])
		if got := c.held(); got != 40 {
			t.Errorf("%d are held, want 40: places are free at once", got)
		}
		asked := c.store.Calls()
		for range 2 {
			for range 5 {
				c.send("left", 1)
			}
			if got := c.store.Calls(); got != asked {
				t.Errorf("the store was asked %d times though instants were free", got-asked)
			}
			for range 5 {
				c.send("never", 1)
			}
			time.Sleep(c.limit.Window + 143*time.Millisecond) // some still wait then
			asked = c.store.Calls()
		}
		c.all.Wait()
		if got, want := c.instants("left"), c.instants("never"); !slices.Equal(got, want) {
			t.Errorf("served at\n%v, want\n%v", got, want)
		}
		c.over()
	})
}

// TestAllWaitersLeave: if all 40 waiters leave, the next one waits as long as the first of
// them did, and a later one no longer than if all units were spent and no request was waiting.
func TestAllWaitersLeave(t *testing.T) {
	eachWaitedFor(t, func(t *testing.T, c *crowd) {
		c.fill("never", 40)
		c.leave(c.fill("left", 40))
		c.send("left", 1)
		c.all.Wait()
		want := c.instants("never")
		first := len(want) - 40 // the first that had to wait
		if got := c.instants("left"); len(got) != first+1 || got[first] != want[first] {
			t.Errorf("the next is served at %v, want %v", got[first:], want[first])
		}
		step := want[first] // or as long as the first of them waited
		for i := first + 1; i < len(want); i++ {
			step = max(step, want[i]-want[i-1])
		}
		for _, pause := range []time.Duration{0, step / 3, 3 * step, 5*step + step/7} {
			c.leave(c.fill("left", 40))
			time.Sleep(pause.Truncate(time.Millisecond))
			before := time.Since(c.start)
			c.send("left", 1)
			c.all.Wait()
			got := c.instants("left")
			if wait := got[len(got)-1] - before; wait > step {
				t.Errorf("%v after 40 have left the next waits for %v, want at most a step of %v", pause, wait, step)
			}
		}
		c.over()
	})
}

// TestRandomCompany: whichever callers come and leave, no more requests pass than the limit
// allows, they proceed in order, and each instant that the store granted is used once or given
// back.
func TestRandomCompany(t *testing.T) {
	eachWaitedFor(t, func(_ *testing.T, c *crowd) {
		c.random(1)
		for _, user := range users {
			c.sound(user)
			c.ordered(user)
		}
	})
}

// TestRandomCompanyOfTwoCosts is TestRandomCompany with two costs, without the check of the
// order: if an instant in the middle is given back, some algorithms use it for a later
// request.
func TestRandomCompanyOfTwoCosts(t *testing.T) {
	eachWaitedFor(t, func(t *testing.T, c *crowd) {
		if algo.WorstOf(c.limit).Delay > 0 || c.limit.Filled().Full() < 2 {
			t.Skip("a request of two fits no bucket of one, and leaves a queue at once")
		}
		c.random(2)
		for _, user := range users {
			c.sound(user)
		}
	})
}

var users = []string{"ada", "bob"}

// random has requests with costs up to most come and leave.
func (c *crowd) random(most int64) {
	c.t.Helper()
	rnd := rand.New(rand.NewPCG(3, 4))
	var ends []func()
	for range 400 {
		switch {
		case rnd.IntN(5) == 0:
			time.Sleep(time.Duration(rnd.Int64N(c.limit.Window.Milliseconds())) * time.Millisecond)
		case rnd.IntN(2) == 0 && len(ends) > 0:
			i := rnd.IntN(len(ends))
			c.leave(ends[i : i+1])
			ends = slices.Delete(ends, i, i+1)
		case c.held() < 30:
			ends = append(ends, c.send(users[rnd.IntN(2)], rnd.Int64N(most)+1))
		}
	}
	c.over()
}

// ordered checks that requests proceeded in the order of their arrival.
func (c *crowd) ordered(user string) {
	c.t.Helper()
	if list := c.instants(user); !slices.IsSorted(list) {
		c.t.Errorf("%s: in the order in which they came, requests went on at %v", user, list)
	}
}

// sound checks that a user's requests that ran are within the limit's bound.
func (c *crowd) sound(user string) {
	c.t.Helper()
	list := c.ran[user]
	if len(list) < 20 {
		c.t.Errorf("%s: %d ran: the test is too weak", user, len(list))
	}
	for i, r := range list {
		for _, d := range []time.Duration{time.Second, c.limit.Window / 2, c.limit.Window, 2 * c.limit.Window} {
			most := algo.Bound(c.limit, d)
			if algo.WorstOf(c.limit).Delay > 0 {
				l := c.limit.Filled()
				after := l.Algorithm.(sluice.LeakyBucket).DelayAfter //nolint:forcetypeassert // only this algorithm queues
				most = algo.Bound(sluice.Limit{Quota: l.Quota, Window: l.Window, Burst: after, Algorithm: sluice.LeakyBucket{DelayAfter: after}}, d)
			}
			var units int64
			for j := i; j >= 0 && list[j].after > r.after-d; j-- {
				units += list[j].cost
			}
			if units > most {
				c.t.Errorf("%s: %d units within %v before %v, at most %d: %s", user, units, d, r.after, most, fmt.Sprint(c.instants(user)))
				return
			}
		}
	}
}
