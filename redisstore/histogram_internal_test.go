// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestHistogramInRedisIsSmall fills one of a million units.
func TestHistogramInRedisIsSmall(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "")
	p := testkit.Plan(t, "s", "x: 1000000/h sliding-histogram")
	now, sum := int64(epoch), int64(0)
	for _, r := range []struct{ times, cost int64 }{{900, 1000}, {900, 100}, {900, 10}, {1000, 1}} {
		for range r.times {
			now += int64(time.Second / time.Microsecond / 2)
			s.Set(now)
			if d := testkit.Take(t, s.Store, testkit.Request(p, "k", r.cost)); !d.Allowed {
				t.Fatalf("after %d: %+v", sum, d)
			}
			sum += r.cost
		}
	}
	req := testkit.Request(p, "k", 1)
	got := redistest.Number(t, client, "MEMORY", "USAGE", s.newCall(&req).items[0].key, "SAMPLES", "0")
	if got > 4096 {
		t.Errorf("a full histogram takes %d bytes, want at most 4 KiB", got)
	}
	t.Logf("%d bytes", got)
}

// TestFlatTakesOfLogsEqualAlgo takes from logs and histograms until they merge, grow and
// expire many times: logtake.lua alone decides nearly all of these takes, and every decision
// and state is that of algo.
func TestFlatTakesOfLogsEqualAlgo(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	server := redistest.Start(t, redistest.Redis(t))
	d := &differential{client: server.Client(t), store: bare(server.Client(t)), rand: rand.New(rand.NewPCG(seed, 3)), together: make(map[*program]int)}
	d.store.inject = func() int64 { return d.now }
	d.load(t)
	var subjects []*subject
	for i, l := range flatLimits(t) {
		scope := fmt.Sprint(i)
		s := &subject{scope: scope, now: d.instant(), rules: make(map[uint64]*modelRule)}
		s.charges = []sluice.Charge{{Plan: d.plan(scope, []sluice.Limit{l}), Key: "k"}}
		s.makeItems(d.store)
		s.model = make([][]algo.State, 1)
		subjects = append(subjects, s)
	}
	steps := 2500
	if testing.Short() || testkit.Race() {
		steps = 400
	}
	all, flat, merges, marks := 0, 0, 0, make([]int64, len(subjects))
	weak := func() bool { return flat < all/10*8 || d.allowed < all/5 || d.denied < all/20 || merges < steps/8 }
	for step := 0; step < steps || step < 4*steps && weak(); step++ { // few are denied before the quotas are spent
		all += len(subjects)
		calls := make([]*call, len(subjects))
		for i, s := range subjects {
			term := s.items[0].term
			s.now = min(s.now+d.upTo(term.Micros/400+2), 1<<51)
			if d.rand.IntN(1000) == 0 {
				s.now += d.upTo(2 * term.Micros)
			}
			cost := 1 + d.upTo(max(term.Quota/300, 1))
			if d.rand.IntN(200) == 0 {
				cost = d.upTo(term.Quota)
			}
			charge := s.charges[0]
			charge.Cost = cost
			calls[i] = &call{items: s.items, charges: 1, now: s.now, jobs: []*job{{req: &sluice.Request{Charge: charge}}}}
			s.trail = append(s.trail[max(len(s.trail)-20, 0):], fmt.Sprintf("at %d: take %d", s.now, cost))
		}
		answers := d.send(calls)
		for i, s := range subjects {
			if answers[i].reply.List == nil {
				flat++
			}
			if !d.compare(t, s, calls[i], answers[i]) {
				t.FailNow()
			}
			if m := s.model[0]; len(m) > 0 && m[0].B != marks[i] {
				merges, marks[i] = merges+1, m[0].B
			}
		}
	}
	t.Logf("%d takes, %d of them in one stretch: %d allowed, %d denied, %d marks", all, flat, d.allowed, d.denied, merges)
	if weak() {
		t.Error("the test is too weak")
	}
}

func flatLimits(t *testing.T) (list []sluice.Limit) {
	for _, text := range []string{
		"1000/s", "5000/min", "1000000/h", "1000000/h precision 3", "20000000/71min precision 8", "100MB/min", "60000/min precision 1024",
		"200000/72min", "5000000/day precision 12", "1000000/12d", "100000/30d", "1000000/366d precision 5", "900000000000/min precision 4",
	} {
		quota, rest, _ := strings.Cut(text, " ")
		list = append(list, testkit.Plan(t, "s", "x: "+quota+" sliding-histogram "+rest).Term(0).Limit)
	}
	for _, text := range []string{"x: 300/s sliding-log", "x: 4000/h sliding-log"} {
		list = append(list, testkit.Plan(t, "s", text).Term(0).Limit)
	}
	return list
}
