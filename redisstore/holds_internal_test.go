// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func holdOf(op sluice.Op, plan *sluice.Plan, key string, cost int64, id string, ttl time.Duration) sluice.Request {
	return sluice.Request{Op: op, Charge: sluice.Charge{Plan: plan, Key: key, Cost: cost}, Hold: &sluice.Hold{ID: id, TTL: ttl}}
}

// TestTakesBesideHolds: takes of a key with open holds are decided, keep its flag until the
// last hold has ended, and remove ended holds.
func TestTakesBesideHolds(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	for _, text := range append(shared, "10/min sliding-log", "30/min sliding-counter sub-windows 5", "10/min interval-refill", "x: 10/min burst 9 credit 3 credit-for 1h") {
		s := clocked(t, server, t.Name()+text)
		s.Set(epoch)
		plan := testkit.Plan(t, "s", text)
		take := testkit.Request(plan, "k", 1)
		it := &s.newCall(&take).items[0]
		before := testkit.Take(t, s.Store, take).Remaining
		testkit.Take(t, s.Store, holdOf(sluice.OpTake, plan, "k", 3, "a", 2*time.Second))
		if d := testkit.Take(t, s.Store, take); d.Remaining != before-4 {
			t.Errorf("%s: got %+v, want %d left", text, d, before-4)
		}
		if v := redistest.Do(t, client, "GET", it.key); v[1]&flagBeside == 0 {
			t.Errorf("%s: %x has no flag of open holds", text, v)
		}
		s.Set(epoch + 1_999_999)
		if d := testkit.Take(t, s.Store, sluice.Request{Op: sluice.OpPeek, Charge: take.Charge}); d.Remaining > before-1 {
			t.Errorf("%s: before the end: got %+v", text, d)
		}
		s.Set(epoch + 2_000_000)
		if d := testkit.Take(t, s.Store, take); d.Remaining < before-2 {
			t.Errorf("%s: after the end: got %+v, want %d left", text, d, before-2)
		}
		if v := redistest.Do(t, client, "GET", it.key); v[1]&flagBeside != 0 {
			t.Errorf("%s: %x has the flag of open holds", text, v)
		}
	}
}

// TestHoldsExpire: the hash lives as long as an id is kept and units of an open hold count.
func TestHoldsExpire(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := newStore(Over(client), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
	for _, c := range []struct {
		text        string
		settle      bool
		least, most time.Duration
	}{
		{"10/day fixed-window", false, 24 * time.Hour, 26 * time.Hour},
		{"10/day fixed-window", true, 2 * time.Minute, 3 * time.Minute},
		{"10/s sliding-log", false, 2 * time.Minute, 62 * time.Minute},
	} {
		plan := testkit.Plan(t, "s", "x: "+c.text)
		req := holdOf(sluice.OpTake, plan, fmt.Sprint("k", c), 3, "a", time.Minute)
		at := redistest.Now(t, client)
		testkit.Take(t, s, req)
		if c.settle {
			testkit.Take(t, s, holdOf(sluice.OpSettle, plan, req.Key, 1, "a", 0))
		}
		it := &s.newCall(&req).items[0]
		ends := time.UnixMilli(redistest.Number(t, client, "PEXPIRETIME", it.keyHolds()))
		if left := ends.Sub(at) + time.Second; left < c.least || left > c.most {
			t.Errorf("%+v: the holds expire in %v", c, left)
		}
	}
}

// TestOtherHoldsAreRefused: no operation decides on or changes holds of another format.
func TestOtherHoldsAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	plan := testkit.Plan(t, "s", "10/min")
	req := holdOf(sluice.OpTake, plan, "k", 3, "a", time.Minute)
	testkit.Take(t, s.Store, req)
	key := s.newCall(&req).items[0].keyHolds()
	for _, field := range []string{fieldNumbers, fieldHold + "a"} {
		was := redistest.Do(t, client, "HGET", key, field)
		for _, value := range []string{"\x02" + was[1:], was[:len(was)-1], was + "\x00"} {
			redistest.Do(t, client, "HSET", key, field, value)
			if _, err := s.Take(t.Context(), holdOf(sluice.OpSettle, plan, "k", 1, "a", 0)); err == nil {
				t.Errorf("%q: %x is decided on", field, value)
			}
			if got := redistest.Do(t, client, "HGET", key, field); got != value {
				t.Errorf("%q: %x became %x", field, value, got)
			}
		}
		redistest.Do(t, client, "HSET", key, field, was)
	}
}

// TestLostState: a state that a server has lost, as in a failover, starts anew: its open holds
// give nothing back, and a settle charges only the units above the hold.
func TestLostState(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	plan := testkit.Plan(t, "s", "10/day fixed-window debt 10")
	req := holdOf(sluice.OpTake, plan, "k", 3, "a", time.Minute)
	testkit.Take(t, s.Store, req)
	redistest.Do(t, client, "DEL", s.newCall(&req).items[0].key)
	testkit.Take(t, s.Store, testkit.Request(plan, "k", 4))
	if d := testkit.Take(t, s.Store, holdOf(sluice.OpSettle, plan, "k", 1, "a", 0)); d.Remaining != 6 {
		t.Errorf("got %+v, want that nothing comes back", d)
	}
}

// TestHoldExplainedByRedis: an explanation names the held units, and changes nothing.
func TestHoldExplainedByRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	plan := testkit.Plan(t, "s", "10/day fixed-window")
	testkit.Take(t, s.Store, holdOf(sluice.OpTake, plan, "k", 3, "a", 2*time.Second))
	testkit.Take(t, s.Store, holdOf(sluice.OpTake, plan, "k", 2, "b", time.Minute))
	for _, c := range []struct {
		at   int64
		want string
	}{{0, "open holds: 2, of 5 units; the next ends at "}, {3e6, "open holds: 1, of 2 units; the next ends at "}} {
		s.Set(epoch + c.at)
		for range 2 {
			e, err := s.Explain(t.Context(), testkit.Request(plan, "k", 1))
			if err != nil || !strings.HasPrefix(e.Limits[0].Lines[0], c.want) {
				t.Errorf("got %+v, %v, want %q", e, err, c.want)
			}
		}
	}
}

// TestHoldsEqualMemory compares this store with memstore over random schedules of holds,
// settles, extensions, repetitions, callers that crash and changed limits: callers settle the
// holds that they remember, some twice, some never.
func TestHoldsEqualMemory(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	texts := [][]string{
		{"x: 40/10s fixed-window debt 60", "x: 60/10s fixed-window debt 60", "x: 40/20s fixed-window debt 60"},
		{"x: 40/10s debt 60", "x: 20/10s burst 40 debt 60", "x: 80/10s debt 60"},
		{"x: 40/10s sliding-log debt 60", "x: 40/10s sliding-counter debt 60", "x: 40/10s sliding-histogram precision 3 debt 60"},
	}
	s := clocked(t, server, t.Name())
	for n := range testkit.Steps(400, 100_000) {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		series, key := texts[rnd.IntN(len(texts))], "k"
		clock := testkit.ClockAt(time.UnixMicro(epoch + rnd.Int64N(1e9)))
		memory := memstore.New(memstore.Options{Now: clock.Now})
		plan := testkit.Plan(t, fmt.Sprint("s", n), series[0])
		var trail []string
		for len(trail) < 25 {
			if rnd.IntN(12) == 0 {
				plan = testkit.Plan(t, plan.Scope(), series[rnd.IntN(len(series))])
			}
			req := holdOf(sluice.OpTake, plan, key, 1+rnd.Int64N(30), fmt.Sprint(rnd.IntN(6)), time.Second*time.Duration(1+rnd.IntN(15)))
			switch rnd.IntN(10) {
			case 0:
				req.Op = sluice.OpExtend
			case 1, 2, 3, 4:
				req.Op, req.Hold.Retry = sluice.OpSettle, rnd.IntN(3) == 0
			case 5:
				req.Hold = nil
			case 6:
				req.Op, req.Hold = sluice.OpPeek, nil
			}
			s.Set(clock.Micros())
			got, want := testkit.Take(t, s.Store, req), testkit.Take(t, memory, req)
			trail = append(trail, fmt.Sprintf("%d: %v %d %+v under %v: %+v", clock.Micros()-epoch, req.Op, req.Cost, req.Hold, plan.Term(0).Limit, got))
			if got != want {
				t.Fatalf("schedule %d: got %+v, want %+v, after\n%s", n, got, want, strings.Join(trail, "\n"))
			}
			if rnd.IntN(2) == 0 {
				clock.Advance(time.Duration(rnd.Int64N(6_000_000)) * time.Microsecond)
			}
		}
	}
}

// TestHoldOfACallerThatLeft: if its caller has left, a hold is given back and forgotten, also
// over several slots of a Cluster, so that its id can be used again.
func TestHoldOfACallerThatLeft(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Redis(t), 3, false)
	s := newStore(Over(cluster.Connect(t)), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
	plan, other := testkit.Plan(t, "s", "10/366day fixed-window"), testkit.Plan(t, "o", "10/day sliding-log")
	for _, keys := range []int{1, 3} {
		req := holdOf(sluice.OpTake, plan, fmt.Sprint("a", keys), 4, "a", time.Minute)
		for i := range keys - 1 {
			req.More = append(req.More, sluice.Charge{Plan: other, Key: fmt.Sprint("b", keys, i), Cost: 3})
		}
		for range 2 {
			d := testkit.Take(t, s, req)
			if !d.Allowed || d.Hold != sluice.HoldOpen || d.Spent != 4 {
				t.Fatalf("%d keys: got %+v", keys, d)
			}
			if !s.giveBack(t.Context(), &req, &d) {
				t.Errorf("%d keys: nothing was given back", keys)
			}
			for i := range req.Charges() {
				if c := req.Nth(i); testkit.Spent(t, s, c.Plan, c.Key) != 0 {
					t.Errorf("%d keys: units of %q are spent", keys, c.Key)
				}
			}
		}
		full := testkit.Request(other, fmt.Sprint("b", keys, 0), 10)
		if keys == 1 {
			continue
		}
		testkit.Take(t, s, full)
		if d := testkit.Take(t, s, req); d.Allowed || testkit.Spent(t, s, plan, req.Key) != 0 {
			t.Errorf("got %+v, and %d units spent of the first key, want a denial that leaves nothing", d, testkit.Spent(t, s, plan, req.Key))
		}
	}
}

// TestManyHoldsOnRedis: the largest number of holds of a key can end at once, and more are
// denied.
func TestManyHoldsOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	plan := testkit.Plan(t, "s", "2000/day sliding-log")
	reqs := make([]sluice.Request, 1030)
	for i := range reqs {
		reqs[i] = holdOf(sluice.OpTake, plan, "k", 1, fmt.Sprint(i), time.Minute)
	}
	for i := range reqs {
		d := testkit.Take(t, s.Store, reqs[i])
		if d.Allowed != (i < 1024) || !d.Allowed && (d.Hold != sluice.HoldsFull || d.RetryAfter != time.Minute) {
			t.Fatalf("hold %d: got %+v", i, d)
		}
	}
	if d := testkit.Take(t, s.Store, testkit.Request(plan, "k", 976)); !d.Allowed || d.Remaining != 0 {
		t.Errorf("a plain take: got %+v", d)
	}
	s.Set(epoch + 60e6)
	if d := testkit.Take(t, s.Store, testkit.Request(plan, "k", 1024)); !d.Allowed || d.Remaining != 0 {
		t.Errorf("after all have ended: got %+v", d)
	}
}

// TestHoldsOfManyProcesses: stores of several processes hold and settle units of one key at
// once, each id from two of them. Each id counts once, with its used units.
func TestHoldsOfManyProcesses(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	plan := testkit.Plan(t, "s", "1000000/366day fixed-window")
	var group sync.WaitGroup
	const ids = 40
	for range 3 { // of two processes each
		for range 2 {
			s := newStore(Over(server.Client(t)), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
			for part := range 2 {
				group.Go(func() {
					for i := part; i < ids; i += 2 {
						for _, req := range []sluice.Request{
							holdOf(sluice.OpTake, plan, "k", 10, fmt.Sprint(i), time.Hour),
							holdOf(sluice.OpSettle, plan, "k", int64(i), fmt.Sprint(i), time.Hour),
							testkit.Request(plan, "k", 1),
						} {
							if d, err := s.Take(t.Context(), req); err != nil || !d.Allowed {
								t.Errorf("%v %d: got %+v, %v", req.Op, i, d, err)
							}
						}
					}
				})
			}
		}
	}
	group.Wait()
	s := newStore(Over(server.Client(t)), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
	if got, want := testkit.Spent(t, s, plan, "k"), int64(ids*(ids-1)/2+6*ids); got != want {
		t.Errorf("%d units are spent, want %d", got, want)
	}
}
