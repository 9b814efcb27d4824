// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sent returns a Sum as another process reads it.
func sent(t *testing.T, s *Sum) *Sum {
	t.Helper()
	text := testkit.JSON(t, s)
	got := new(Sum)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

// TestSumOfNodes: counts of nodes with common keys merge to exactly the result of one node
// that has counted all.
func TestSumOfNodes(t *testing.T) {
	for _, precision := range []int{Fine, Coarse} {
		for _, keys := range []int{0, 1, 30, few(precision) - 1, few(precision), few(precision) + 1, 700, 5000, testkit.Steps(6000, 60_000)} {
			t.Run(fmt.Sprint(precision, keys), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(keys), uint64(precision)))
				all, nodes := New(precision), []*Keys{New(precision), New(precision), New(precision)}
				count := func(k *Keys, hash uint64) {
					k.Seen(hash)
					k.Used(hash, uint32(hash%1001))
					if hash%3 == 0 {
						k.Denied(hash)
					}
				}
				turn := func(now time.Time) {
					for _, k := range append(nodes, all) {
						k.Turn(now)
					}
				}
				turn(noon)
				for i := range keys {
					if i == keys/2 {
						turn(noon.Add(HourHalf))
					}
					hash := random.Uint64()
					count(all, hash)
					for j, k := range nodes {
						if random.IntN(2) == 0 || j == i%len(nodes) {
							count(k, hash)
						}
					}
				}
				for _, of := range []func(*Keys) *Sum{(*Keys).Hour, (*Keys).Day} {
					sum := sent(t, of(nodes[0]))
					for _, k := range nodes[1:] {
						if !sum.Merge(sent(t, of(k))) {
							t.Fatal("not merged")
						}
					}
					if got, want := sum.Count(), of(all).Count(); got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
				}
			})
		}
	}
}

// TestSumOfPrecisions: a fine and a coarse Sum merge to the coarse Sum of all keys, once these
// are too many for a list.
func TestSumOfPrecisions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all, fine, coarse := New(Coarse), New(Fine), New(Coarse)
	for _, k := range []*Keys{all, fine, coarse} {
		k.Turn(noon)
	}
	for i := range 3000 {
		hash := random.Uint64()
		all.Seen(hash)
		if i%3 > 0 {
			fine.Seen(hash)
		}
		if i%3 < 2 {
			coarse.Seen(hash)
		}
	}
	one, other := fine.Hour(), coarse.Hour()
	if !one.Merge(coarse.Hour()) || !other.Merge(fine.Hour()) {
		t.Fatal("not merged")
	}
	if want := all.Hour().Count(); one.Count() != want || other.Count() != want {
		t.Errorf("got %+v and %+v, want %+v", one.Count(), other.Count(), want)
	}
}

// TestSumOfTimes: small differences of clocks do not matter; other spans, and times far apart,
// are not merged.
func TestSumOfTimes(t *testing.T) {
	at := func(now time.Time) *Keys {
		k := New(Coarse)
		k.Turn(now)
		k.Seen(uint64(now.UnixNano()) * 0x9E3779B97F4A7C15)
		return k
	}
	now := at(noon).Hour()
	for _, c := range []struct {
		of   *Sum
		want bool
	}{
		{at(noon.Add(-time.Second)).Hour(), true},
		{at(noon.Add(HourHalf)).Hour(), true},
		{at(noon.Add(4 * HourHalf)).Hour(), false},
		{at(noon).Day(), false},
	} {
		if got := now.Merge(c.of); got != c.want {
			t.Errorf("%+v: got %v", c.of.Count(), got)
		}
	}
	if got := now.Count(); got.Seen != 3 || !got.Since.Equal(noon.Add(-time.Second)) {
		t.Errorf("got %+v", got)
	}
}

// FuzzSum: any text is refused, or can be counted and merged.
func FuzzSum(f *testing.F) {
	k := New(Coarse)
	k.Turn(noon)
	for i := range uint64(3000) {
		k.Seen(i * 0x9E3779B97F4A7C15)
		if i < 20 {
			k.Denied(i * 0x9E3779B97F4A7C15)
		}
	}
	good, err := json.Marshal(k.Hour())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"half":1800,"number":1,"since":1,"precision":9,"seen":"` + strings.Repeat("~", 512) + `"}`))
	f.Add([]byte(`{"half":1800,"number":1,"since":1,"precision":9,"seen":"l////"}`))
	f.Add([]byte(`{"half":1800,"number":-1,"precision":30,"peak":4000000000}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Sum
		if s.UnmarshalJSON(data) != nil {
			return
		}
		own := k.Hour()
		own.Merge(&s)
		if got := own.Count(); got.Seen < 0 || got.Denied < 0 || got.Peak > 1 {
			t.Errorf("got %+v", got)
		}
		sent(t, own)
	})
}
