// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestVersionsPressOneKey: nodes with two versions of a limit use one key at once. Every
// request is decided. Together they admit the units of the larger limit, or of both if the
// limits count in different ways.
func TestVersionsPressOneKey(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, c := range []struct {
		texts [2]string
		least int64
		most  int64
	}{
		{[2]string{"x: 300/366day", "x: 400/366day"}, 400, 400},
		{[2]string{"x: 300/366day sliding-log", "x: 400/366day sliding-log"}, 400, 400},
		{[2]string{"x: 300/366day sliding-log", "x: 400/366day fixed-window"}, 300, 400},
		{[2]string{"x: 300/366day initial 300", "x: 300/366day initial 0"}, 300, 300},
	} {
		t.Run(c.texts[0]+" "+c.texts[1], func(t *testing.T) {
			const nodes, callers, takes = 8, 4, 40
			limiters := make([]*sluice.Limiter, nodes)
			for i := range limiters {
				s := open(t, server, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling, NoCoalescing: i%4 > 1})
				limiters[i] = testkit.Limiter(t, s, "scope", c.texts[i%2])
			}
			var admitted atomic.Int64
			clienttest.Line(nodes*callers, func(i int) {
				for range takes {
					d, err := limiters[i%nodes].Take(t.Context(), "k", 1)
					if err != nil {
						t.Error(err)
						return
					}
					admitted.Add(d.Spent)
				}
			})()
			if n := admitted.Load(); n < c.least || n > c.most {
				t.Errorf("got %d admitted, want %d to %d", n, c.least, c.most)
			}
		})
	}
}

// pressed is a Client; another process does something before each of its calls.
type pressed struct {
	redisstore.Client
	first func()
}

func (p pressed) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	p.first()
	p.Client.Run(ctx, scripts, replies)
}

// TestPressedKeyIsDecided: a request is decided before its deadline even if others change its
// key between every read and write.
func TestPressedKeyIsDecided(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	other := testkit.Limiter(t, open(t, server, redisstore.Options{Timeout: testkit.Ceiling}), "scope", "x: 400/366day fixed-window")
	var left atomic.Int64
	client := pressed{redisstore.Over(server.Client(t)), func() {
		if left.Add(-1) < 0 {
			return
		}
		if _, err := other.Take(t.Context(), "k", 1); err != nil {
			t.Error(err)
		}
	}}
	s, err := redisstore.New(client, redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it returns none
	lim := testkit.Limiter(t, s, "scope", "x: 300/366day sliding-log")
	left.Store(150)
	if d, err := lim.Take(t.Context(), "k", 1); err != nil || !d.Allowed || left.Load() >= 0 {
		t.Errorf("got %+v, %v with %d changes to come, want a decision behind all", d, err, left.Load())
	}
}
