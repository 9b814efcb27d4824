// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
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

// TestLocalBlocks: while the store is unavailable each node blocks keys because of its own
// denials.
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

// TestNodesChange: the share follows the last known number of nodes, and the units that a
// key has spent are carried over.
func TestNodesChange(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		nodes := 1
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return nodes }})
		defer end(t, f, s)
		bring(t, f, s, erring)
		p := testkit.Plan(t, "api", "10/min sliding-log")
		testkit.Take(t, s, testkit.Request(p, "k", 10))
		nodes = 6
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed || d.RetryAfter != time.Minute || d.Nodes != 6 {
			t.Errorf("%+v, want it denied for a minute as one of 6 nodes", d)
		}
	})
}

// TestMemstoreBehind: a remote store in front of a memstore, which never fails, stays healthy.
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
