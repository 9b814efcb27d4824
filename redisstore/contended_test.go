// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestVersionsPressOneKey: nodes with two versions of a limit press one key at
// once. Every request is decided, and together they admit what the larger one
// gives, or both do where they count in different ways.
func TestVersionsPressOneKey(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
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
				s := open(t, server.Option(), redisstore.Options{Prefix: t.Name(), Timeout: 30 * time.Second, NoCoalescing: i%4 > 1})
				limiters[i] = storekit.Limiter(t, s, "scope", c.texts[i%2])
			}
			var admitted atomic.Int64
			line(nodes*callers, func(i int) {
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
