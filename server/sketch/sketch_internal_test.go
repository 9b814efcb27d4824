// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/storekit"
)

// TestEstimate: from no key to millions, 19 of 20 estimates are within the error
// that is told, their mean is the truth, and few keys are told almost exactly.
func TestEstimate(t *testing.T) {
	storekit.SkipRace(t)
	for _, precision := range []int{Fine, Coarse} {
		k := New(precision)
		for _, n := range []int{0, 1, 5, 20, 100, 500, 1000, 3000, 10_000, 100_000} {
			const runs = 200
			off, sum := 0, 0.0
			random := rand.New(rand.NewPCG(uint64(n), uint64(precision)))
			for range runs {
				d := newDistinct(precision)
				for range n {
					hash := random.Uint64()
					d.add(precision, hash)
					d.add(precision, hash)
				}
				got := float64(d.estimate(precision))
				sum += got
				if math.Abs(got-float64(n)) > max(1, float64(n)*k.Error()/100) {
					off++
				}
			}
			// 10 of 200 are expected; 22 come once in ten thousand times.
			if mean := sum / runs; off > 22 || math.Abs(mean-float64(n)) > max(0.5, 0.012*float64(n)) {
				t.Errorf("precision %d, %d keys: %d of %d are off by more than %.1f %%, mean %.1f", precision, n, off, runs, k.Error(), mean)
			}
		}
	}
}

// TestEstimateExtremes: as many keys as can be, and hashes of zeros alone, are no
// reason to fail.
func TestEstimateExtremes(t *testing.T) {
	d := newDistinct(Coarse)
	for i := range uint64(1 << Coarse) {
		d.add(Coarse, i<<(64-Coarse))
	}
	if got := d.estimate(Coarse); got <= 1<<32 {
		t.Errorf("full: got %d", got)
	}
	if got := newDistinct(Coarse).estimate(Coarse); got != 0 {
		t.Errorf("empty: got %d", got)
	}
}

// TestKeys: against sets of the keys themselves, over days with pauses: each span
// has the keys of its halves and no others.
func TestKeys(t *testing.T) {
	storekit.SkipRace(t)
	type use struct {
		at   time.Time
		hash uint64
	}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		k := New(Fine)
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(24*60)) * time.Minute)
		began := now
		var uses []use
		for range 300 {
			k.Turn(now)
			for range random.IntN(3) {
				hash := random.Uint64()
				uses = append(uses, use{now, hash})
				k.Seen(hash)
			}
			for half, got := range map[time.Duration]Count{HourHalf: k.Hour(), DayHalf: k.Day()} {
				since := now.Truncate(half).Add(-half)
				if since.Before(began) {
					since = began
				}
				want := make(map[uint64]bool)
				for _, u := range uses {
					if !u.at.Before(since) {
						want[u.hash] = true
					}
				}
				if math.Abs(float64(got.Seen)-float64(len(want))) > max(2, 0.1*float64(len(want))) || !got.Since.Equal(since) {
					t.Fatalf("seed %d, at %v: got %d since %v, want %d since %v", seed, now, got.Seen, got.Since, len(want), since)
				}
			}
			switch random.IntN(30) {
			case 0:
				now = now.Add(time.Duration(random.IntN(30)) * time.Hour)
			case 1:
				k.Turn(now.Add(-time.Hour)) // a clock that steps back
			default:
				now = now.Add(time.Duration(random.IntN(20)) * time.Minute)
			}
		}
	}
}

// TestKeysKinds: those that are denied and near a limit are told apart, and the peak
// is forgotten with its span.
func TestKeysKinds(t *testing.T) {
	k := New(Fine)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	k.Turn(now)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range uint32(1000) {
		hash := random.Uint64()
		k.Seen(hash)
		k.Used(hash, i)
		if i%10 == 0 {
			k.Denied(hash)
		}
	}
	about := func(got, want int64) bool { return math.Abs(float64(got-want)) <= 0.08*float64(want) }
	for _, got := range []Count{k.Hour(), k.Day()} {
		if !about(got.Seen, 1000) || !about(got.Denied, 100) || !about(got.Near, 199) || got.Peak != 0.999 {
			t.Errorf("got %+v", got)
		}
	}
	k.Turn(now.Add(time.Hour))
	if got := k.Hour(); got.Seen != 0 || got.Peak != 0 {
		t.Errorf("an hour later: %+v", got)
	}
	if got := k.Day(); !about(got.Denied, 100) || got.Peak != 0.999 {
		t.Errorf("the day: %+v", got)
	}
}

// TestKeysConcurrently: nothing is lost between goroutines that count.
func TestKeysConcurrently(t *testing.T) {
	together, alone := New(Fine), New(Fine)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	together.Turn(now)
	alone.Turn(now)
	var wait sync.WaitGroup
	for i := range uint64(4) {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(i, 3))
			for range 20_000 {
				together.Used(random.Uint64(), uint32(random.IntN(1000)))
			}
		})
	}
	wait.Wait()
	for i := range uint64(4) {
		random := rand.New(rand.NewPCG(i, 3))
		for range 20_000 {
			alone.Used(random.Uint64(), uint32(random.IntN(1000)))
		}
	}
	if got, want := together.Hour(), alone.Hour(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func BenchmarkSeen(b *testing.B) {
	k := New(Fine)
	random := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		k.Seen(random.Uint64())
	}
}
