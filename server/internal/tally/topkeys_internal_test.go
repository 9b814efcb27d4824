// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// TestTopKeysBounds: the counts always bound the true ones, they add up, and every key counted
// more often than total/places is contained.
func TestTopKeysBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		places int
		key    func(*rand.Rand) int
	}{
		{"skewed", 20, func(r *rand.Rand) int { return int(r.ExpFloat64() * 15) }},
		{"even, more keys than places", 20, func(r *rand.Rand) int { return r.IntN(60) }},
		{"ever new keys around one", 5, func(r *rand.Rand) int { return max(0, r.IntN(1<<30)-1<<29) }},
		{"as many keys as places", 20, func(r *rand.Rand) int { return r.IntN(20) }},
		{"one place", 1, func(r *rand.Rand) int { return r.IntN(3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			list, truth := newTopKeys(c.places), make(map[string]uint64)
			const n = 20_000
			for range n {
				key := fmt.Sprint(c.key(r))
				truth[key]++
				list.add(key)
			}
			top := list.top(c.places)
			all, total := top.Keys, top.Total
			if total != n || len(all) > c.places {
				t.Fatalf("total %d of %d, %d keys in %d places", total, n, len(all), c.places)
			}
			found, sum := make(map[string]bool), uint64(0)
			for i, k := range all {
				if k.Least > truth[k.Key] || k.Most < truth[k.Key] {
					t.Errorf("%s: %d to %d, but was %d", k.Key, k.Least, k.Most, truth[k.Key])
				}
				if i > 0 && k.Most > all[i-1].Most {
					t.Errorf("%s comes after one that is counted less", k.Key)
				}
				found[k.Key], sum = true, sum+k.Most
			}
			if sum != n {
				t.Errorf("the counts add up to %d, want %d", sum, n)
			}
			for _, few := range []int{0, 1, c.places / 2, c.places} {
				d, listed := list.top(few), make(map[string]bool)
				for _, k := range d.Keys {
					listed[k.Key] = true
				}
				for key, count := range truth {
					if !listed[key] && count > d.Rest {
						t.Errorf("%s came %d times and is not among %d keys; others are said to have come %d times at most", key, count, few, d.Rest)
					}
				}
			}
			for key, count := range truth {
				if count > n/uint64(c.places) && !found[key] {
					t.Errorf("%s came %d times and is missing", key, count)
				}
			}
		})
	}
}

// TestLongKeys: the kept part of a key is bounded.
func TestLongKeys(t *testing.T) {
	list := newTopKeys(2)
	list.add(strings.Repeat("x", 1<<16))
	all := list.top(10).Keys
	if len(all) != 1 || len(all[0].Key) != maxKeyBytes {
		t.Errorf("got %d keys, the first of %d bytes", len(all), len(all[0].Key))
	}
}

// TestTopKeysConcurrent: no count is lost.
func TestTopKeysConcurrent(t *testing.T) {
	list := newTopKeys(10)
	var adders sync.WaitGroup
	for i := range 4 {
		adders.Go(func() {
			for j := range 1000 {
				list.add(fmt.Sprint((i + j) % 12))
				list.top(3)
			}
		})
	}
	adders.Wait()
	if total := list.top(0).Total; total != 4000 {
		t.Errorf("total %d, want 4000", total)
	}
}
