// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
)

// TestDifferentialRateLimitJ compares the profile, as the scripts decide it, with RateLimitJ's
// own script on the same server, over random calls.
func TestDifferentialRateLimitJ(t *testing.T) {
	p, _ := profile.Get("ratelimitj")
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	script, err := os.ReadFile("testdata/ratelimitj/sliding-window-ratelimit.lua")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, c := range []struct {
		limits    []sluice.Limit
		rules     string // seconds, quota and precision of each rule
		quota     int64
		precision int64 // the smallest precision
	}{
		{p.Limits, "[[10,10,1]]", 10, 1},
		{vector.Of(p.Name)[2].Limits, "[[60,100,10]]", 100, 10},
		{vector.Of(p.Name)[3].Limits, "[[10,10]]", 10, 10},
		{[]sluice.Limit{p.Limits[0].WithName("a"), sluice.MustParseLimit("b: 30/min sliding-counter sub-windows 6 whole")}, "[[10,10,1],[60,30,10]]", 10, 2},
	} {
		t.Run(c.rules, func(t *testing.T) {
			s := clocked(t, server, c.rules)
			lim, err := sluice.New(s, "blocks", c.limits...)
			if err != nil {
				t.Fatal(err)
			}
			now, allowed := vector.Start.UnixMicro(), 0
			calls := testkit.Steps(1000, 10_000)
			for i := range calls {
				now += rnd.Int64N(rnd.Int64N(2*c.precision*1_000_000) + 1)
				cost := 1 + rnd.Int64N(1+rnd.Int64N(c.quota))
				seconds := strconv.FormatFloat(float64(now)/1e6, 'f', 6, 64)
				over := redistest.Number(t, client, "EVAL", string(script), "1", c.rules, c.rules, seconds, strconv.FormatInt(cost, 10), "1")
				s.Set(now)
				d, err := lim.Take(t.Context(), "k", cost)
				if err != nil {
					t.Fatal(err)
				}
				if want := over == 0; d.Allowed != want {
					t.Fatalf("call %d, %d at %d: allowed %v, want %v", i+1, cost, now, d.Allowed, want)
				}
				if over == 0 {
					allowed++
				}
			}
			if allowed < calls/10 || allowed > calls*9/10 {
				t.Errorf("%d of %d calls were allowed: the test is too weak", allowed, calls)
			}
		})
	}
}
