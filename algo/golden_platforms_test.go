// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/profile"
)

// accountStore is an account as a Store of one key, whose clock stands still.
type accountStore struct {
	*account
	now int64
}

func (s *accountStore) Take(_ context.Context, req sluice.Request) (sluice.Decision, error) {
	return s.do(s.now, req), nil
}

// TestGoldenPlatforms plays what platforms document of their own limits.
func TestGoldenPlatforms(t *testing.T) {
	for _, p := range profile.All() {
		for _, v := range p.Vectors {
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				s := &accountStore{account: open(t, v.Limits...)}
				if err := v.Play(t.Context(), s, func(now time.Time) { s.now = now.UnixMicro() }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestGoldenBlocks holds conservative counters against a plain count per block,
// which is how RateLimitJ counts: the running block and those before it.
func TestGoldenBlocks(t *testing.T) {
	for _, c := range []struct {
		name                 string
		quota, block, blocks int64
	}{
		{"RateLimitJ 10 s rule of precision 1 s", 10, s, 10},
		{"six blocks of 10 s", 100, 10 * s, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := with(counter(c.quota, (c.blocks-1)*c.block, int(c.blocks-1)), conservative)
			rapid.Check(t, func(t *rapid.T) {
				a, now, counts := open(t, l), origin, make(map[int64]int64)
				for range rapid.IntRange(1, 100).Draw(t, "takes") {
					now += rapid.Int64Range(0, 2*c.block).Draw(t, "gap")
					cost := rapid.Int64Range(1, c.quota).Draw(t, "cost")
					id, used := now/c.block, int64(0)
					for i := range c.blocks {
						used += counts[id-i]
					}
					want := used+cost <= c.quota
					if want {
						counts[id] += cost
					}
					if got := a.take(now, cost).Allowed; got != want {
						t.Fatalf("a take of %d at %d with %d used: allowed %v, want %v", cost, now-origin, used, got, want)
					}
				}
			})
		})
	}
}
