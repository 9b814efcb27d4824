// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// TestPolicyOf: a request over plans of several policies gets the strictest.
func TestPolicyOf(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{PolicyOf: func(p *sluice.Plan) sluice.Failure {
			switch p.Scope() {
			case "local":
				return sluice.FailLocal
			case "closed":
				return sluice.FailClosed
			case "none":
				return 77
			default:
				return sluice.FailOpen
			}
		}})
		defer end(t, f, s)
		bring(t, f, s, erring)
		o, l, c := testkit.Plan(t, "open", "1/h"), testkit.Plan(t, "local", "1/h"), testkit.Plan(t, "closed", "1/h")
		none := testkit.Plan(t, "none", "1/h")
		ask := func(plans ...*sluice.Plan) string {
			req := testkit.Request(plans[0], "k", 1)
			for _, p := range plans[1:] {
				req.More = append(req.More, sluice.Charge{Plan: p, Key: "k", Cost: 1})
			}
			d, err := s.Take(t.Context(), req)
			if unavailable, ok := errors.AsType[*remote.UnavailableError](err); ok {
				return fmt.Sprint("unavailable ", unavailable.RetryAfter)
			}
			return fmt.Sprint(d.Allowed, d.Degraded, err)
		}
		for _, k := range []struct {
			plans []*sluice.Plan
			want  string
		}{
			{[]*sluice.Plan{o}, "true true <nil>"},
			{[]*sluice.Plan{o}, "true true <nil>"},
			{[]*sluice.Plan{o, l}, "true true <nil>"},
			{[]*sluice.Plan{l}, "false true <nil>"},
			{[]*sluice.Plan{l, o}, "false true <nil>"},
			{[]*sluice.Plan{o, l, c}, "unavailable 500ms"},
			{[]*sluice.Plan{c, o}, "unavailable 500ms"},
			{[]*sluice.Plan{l, none}, "unavailable 500ms"},
		} {
			if got := ask(k.plans...); got != k.want {
				t.Errorf("%d plans: %s, want %s", len(k.plans), got, k.want)
			}
		}
	})
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		limit string
		nodes int
		want  string
	}{
		{"100/min", 1, "token-bucket.min: 100/min burst 100"},
		{"100/min", -3, "token-bucket.min: 100/min burst 100"},
		{"100/min", 8, "token-bucket.min: 100/8min burst 100"},
		{"5/s sliding-log debt 2", 3, "sliding-log.s: 5/3s sliding-log debt 2"},
		{"10/s sliding-counter sub-windows 5", 3, "sliding-counter.s: 10/3s sliding-counter sub-windows 5"},
		{"100/day calendar Asia/Seoul", 8, "fixed-window.day.asia-seoul: 12/day fixed-window calendar Asia/Seoul"},
		{"5/day calendar Asia/Seoul", 8, "fixed-window.day.asia-seoul: 1/day fixed-window calendar Asia/Seoul"},
		{"100/366day burst 50 initial 10", 4, "token-bucket.366day: 25/366day burst 12 initial 2"},
		{"10/366day debt 9 next-waits", 3, "token-bucket.366day: 3/366day burst 3 next-waits debt 3"},
		{"10/366day debt 2 next-waits", 3, "token-bucket.366day: 3/366day burst 3"},
		{"1/366day", 4, "token-bucket.366day: 1/366day burst 1"},
		{"20/min block 10min", 8, "block.min: 20/min block 10min"},
	} {
		l := sluice.MustParseLimit(c.limit)
		got := remote.Share(l, c.nodes)
		if got.String() != c.want {
			t.Errorf("Share(%v, %d) = %v, want %s", c.limit, c.nodes, got, c.want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("Share(%v, %d): %v", c.limit, c.nodes, err)
		}
	}
}

// TestBoundIsTrue: no traffic gets more through a fleet whose store is unavailable than
// the bound of a share says, times the nodes.
func TestBoundIsTrue(t *testing.T) {
	const nodes = 3
	for _, text := range []string{
		"10/s", "7/s burst 3", "10/s burst 20 interval-refill", "10/s fixed-window", "10/s fixed-window anchor first",
		"10/s sliding-log", "10/s sliding-counter", "12/s sliding-counter sub-windows 4 conservative", "40/s sliding-histogram precision 3",
	} {
		t.Run(text, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				f.set(erring)
				var fleet [nodes]*remote.Store
				for i := range fleet {
					fleet[i] = wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return nodes }})
					defer end(t, f, fleet[i])
				}
				p := testkit.Plan(t, "api", text)
				rnd := rand.New(rand.NewPCG(1, 2))
				type grant struct {
					at    time.Time
					units int64
				}
				var grants []grant
				span := nodes * time.Second
				var most, within int64
				first := 0
				for range testkit.Steps(2000, 20_000) {
					if rnd.IntN(4) == 0 {
						time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
					}
					cost := 1 + rnd.Int64N(3)
					if !testkit.Take(t, fleet[rnd.IntN(nodes)], testkit.Request(p, "k", cost)).Allowed {
						continue
					}
					now := time.Now()
					grants = append(grants, grant{now, cost})
					for within += cost; now.Sub(grants[first].at) >= span; first++ {
						within -= grants[first].units
					}
					most = max(most, within)
				}
				bound := nodes * algo.Bound(remote.Share(p.Term(0).Limit, nodes), span)
				if most > bound || most < bound/3 {
					t.Errorf("%d units in %v, the bound is %d", most, span, bound)
				}
			})
		})
	}
}

// TestLocalBlocks: while the store is unavailable each node blocks whom it has denied as often
// as the block says, and knows nothing of what the others have denied.
func TestLocalBlocks(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		f.set(erring)
		var fleet [2]*remote.Store
		for i := range fleet {
			fleet[i] = wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return 2 }})
			defer end(t, f, fleet[i])
		}
		p := testkit.Plan(t, "api", "1/s", "3/min block 10min")
		take := func(node int) sluice.Decision { return testkit.Take(t, fleet[node], testkit.Request(p, "k", 1)) }
		for range 3 {
			take(0)
		}
		take(1)
		if d := take(1); d.Binding != 0 || d.Allowed {
			t.Errorf("the first denial of the other node: got %+v", d)
		}
		if d := take(0); d.RetryAfter != 10*time.Minute {
			t.Errorf("the third denial of one node: got %+v, want a block", d)
		}
	})
}

// TestNodesChange: the share follows the last known number of nodes, and what a
// key has spent is carried over.
func TestNodesChange(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		nodes := 1
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return nodes }})
		defer end(t, f, s)
		bring(t, f, s, erring)
		p := testkit.Plan(t, "api", "10/min sliding-log")
		testkit.Take(t, s, testkit.Request(p, "k", 10))
		nodes = 6
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed || d.RetryAfter != 6*time.Minute {
			t.Errorf("%+v, want it denied for 6 minutes", d)
		}
	})
}

// TestMemstoreBehind: a store that never fails is never doubted.
func TestMemstoreBehind(t *testing.T) {
	s := wrap(t, memstore.New(memstore.Options{}), remote.Options{Timeout: time.Hour})
	p := testkit.Plan(t, "api", "5/h")
	for i := range 8 {
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed != (i < 5) || d.Degraded {
			t.Errorf("take %d: %+v", i, d)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
