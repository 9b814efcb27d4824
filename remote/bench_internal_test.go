// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// traffic are the requests that the benchmarks repeat.
var traffic = []struct {
	name  string
	limit string
	keys  int
}{
	{"hot key", "1000000000/s", 1},
	{"denied key", "1/h sliding-log", 1},
	{"uniform keys", "1000000/s", 100_000},
}

// takes returns a function that takes units of one key after another.
func takes(t testing.TB, limit string, keys int) func(context.Context) {
	t.Helper()
	s, err := Wrap(memstore.New(memstore.Options{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	reqs := make([]sluice.Request, keys)
	p := testkit.Plan(t, "api", limit)
	for i := range reqs {
		reqs[i] = testkit.Request(p, fmt.Sprint("key ", i), 1)
	}
	n := 0
	return func(ctx context.Context) {
		n = (n + 7919) % keys
		if _, err := s.Take(ctx, reqs[n]); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, c := range traffic {
		b.Run(c.name, func(b *testing.B) {
			take := takes(b, c.limit, c.keys)
			b.Run("no end", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					take(context.Background())
				}
			})
			b.Run("a caller that may leave", func(b *testing.B) {
				b.ReportAllocs()
				ctx := b.Context()
				for b.Loop() {
					take(ctx)
				}
			})
		})
	}
}

// TestTakeAllocatesLittle: a call of a store that answers at once needs no timer, channel or
// goroutine.
func TestTakeAllocatesLittle(t *testing.T) {
	for _, c := range traffic {
		keys := min(c.keys, testkit.Steps(10_000, 100_000))
		take := takes(t, c.limit, keys)
		for range keys { // so that the store has room for all
			take(t.Context())
		}
		for name, ctx := range map[string]context.Context{"no end": context.Background(), "a caller that may leave": t.Context()} {
			if n := testing.AllocsPerRun(200, func() { take(ctx) }); n > 2 {
				t.Errorf("%s, %s: %v allocations, want at most 2", c.name, name, n)
			}
		}
	}
}
