// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// contents returns every key of a Cluster with its value.
func contents(t *testing.T, c *redistest.Cluster) []string {
	t.Helper()
	var all []string
	for _, s := range c.Masters {
		client := s.Client(t)
		for _, key := range redistest.Keys(t, client) {
			all = append(all, fmt.Sprintf("%q: %x", key, redistest.Do(t, client, "GET", key)))
		}
	}
	slices.Sort(all)
	return all
}

// TestDenialAcrossSlotsLeavesNothing: a request over several slots of a Cluster
// that is denied changes nothing anywhere, whichever key denies.
func TestDenialAcrossSlotsLeavesNothing(t *testing.T) {
	c := redistest.SharedCluster(t, redistest.Redis(t))
	s := open(t, c, redisstore.Options{Timeout: testkit.Ceiling})
	wide := testkit.Limiter(t, s, "scope", "1000/day", "1000/day sliding-log", "1000/day sliding-histogram", "1000/day leaky-bucket burst 1000", "1000/day sliding-counter sub-windows 4")
	narrow := testkit.Limiter(t, s, "narrow", "10/day sliding-log")
	for i := range 20 {
		if _, err := narrow.Take(t.Context(), fmt.Sprint(i), 10); err != nil {
			t.Fatal(err)
		}
		if _, err := wide.Take(t.Context(), fmt.Sprint(i), 5); err != nil {
			t.Fatal(err)
		}
	}
	before := contents(t, c)
	for i := range 60 {
		req := sluice.Request{
			Op:     []sluice.Op{sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve}[i%3],
			Charge: wide.Of(fmt.Sprint(i%20), 7),
			More:   []sluice.Charge{narrow.Of(fmt.Sprint((i+7)%20), 1), wide.Of(fmt.Sprint(40+i), 3)},
		}
		d, err := s.Take(t.Context(), req)
		if err != nil || d.Allowed || d.Spent != 0 {
			t.Fatalf("%v: got %+v, %v, want a denial", req.Op, d, err)
		}
		if d.Binding != wide.Plan().Len() {
			t.Errorf("%v: limit %d binds, want %d", req.Op, d.Binding, wide.Plan().Len())
		}
	}
	if got := contents(t, c); !slices.Equal(got, before) {
		t.Errorf("got\n%q\nwant\n%q", got, before)
	}
}

// TestAcrossSlotsNeverOver: conflicting requests over several slots admit no more than the
// limit of any key, and the units that they undo are available to others.
func TestAcrossSlotsNeverOver(t *testing.T) {
	c := redistest.SharedCluster(t, redistest.Redis(t))
	s := open(t, c, redisstore.Options{Timeout: testkit.Ceiling})
	takes := testkit.Steps(20, 60)
	units := int64(5 * takes)
	for _, how := range []string{"fixed-window anchor first", "sliding-log", "token-bucket", "sliding-histogram precision 1024", "sliding-counter"} {
		t.Run(how, func(t *testing.T) {
			text := fmt.Sprintf("%d/366day %s", units, how)
			l := testkit.Limiter(t, s, text, text)
			const keys = 4
			var spent [keys]atomic.Int64
			clienttest.Line(16, func(i int) {
				rnd := rand.New(rand.NewPCG(uint64(i), 1))
				for range takes {
					k := rnd.Perm(keys)
					req := sluice.Request{Charge: l.Of(fmt.Sprint(k[0]), 1), More: []sluice.Charge{l.Of(fmt.Sprint(k[1]), 2)}}
					d, err := s.Take(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						spent[k[0]].Add(1)
						spent[k[1]].Add(2)
					}
				}
			})()
			for k := range spent {
				d, err := l.TakeUpTo(t.Context(), fmt.Sprint(k), units)
				if err != nil {
					t.Fatal(err)
				}
				if got := spent[k].Load() + d.Spent; got != units {
					t.Errorf("key %d: got %d units admitted and %d left, want %d together", k, spent[k].Load(), d.Spent, units)
				}
			}
		})
	}
}
