// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestEstimate: from no key to a hundred thousand, 19 of 20 estimates are within the reported
// error, their mean is the true number, and few keys are counted exactly.
func TestEstimate(t *testing.T) {
	for _, precision := range []int{Fine, Coarse} {
		percent := New(precision).Hour().Count().Error
		keys := []int{0, 1, 5, 20, few(precision) - 1, few(precision), 100, 170, 300, 690, 1000, 3000, 10_000, 100_000}
		for _, n := range keys[:testkit.Steps(9, len(keys))] {
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
				got := float64(d.estimate())
				sum += got
				if math.Abs(got-float64(n)) > max(1, float64(n)*percent/100) {
					off++
				}
				if n < few(precision) && int(got) != n {
					t.Fatalf("precision %d, %d keys: got %v", precision, n, got)
				}
			}
			// 10 of 200 are expected; 22 occur once in ten thousand runs.
			if mean := sum / runs; off > 22 || math.Abs(mean-float64(n)) > max(0.5, 0.012*float64(n)) {
				t.Errorf("precision %d, %d keys: %d of %d are off by more than %.1f %%, mean %.1f", precision, n, off, runs, percent, mean)
			}
		}
	}
}

// TestEstimateExtremes: full registers, and hashes of zeros alone, cause no failure.
func TestEstimateExtremes(t *testing.T) {
	d := newDistinct(Coarse)
	for i := range uint64(1 << Coarse) {
		d.add(Coarse, i<<(64-Coarse))
	}
	if got := d.estimate(); got <= 1<<32 {
		t.Errorf("full: got %d", got)
	}
	empty := newDistinct(Coarse)
	if got := empty.estimate(); got != 0 {
		t.Errorf("empty: got %d", got)
	}
}

// TestMerge: counts of several sketches under one secret merge to the estimate of all keys,
// from lists and registers alike.
func TestMerge(t *testing.T) {
	sizes := []int{0, 1, 10, 40, 63, 64, 200, 5000}
	for _, precision := range []int{Fine, Coarse} {
		k := New(precision)
		off, runs := 0, 0
		random := rand.New(rand.NewPCG(9, uint64(precision)))
		for range testkit.Steps(2, 10) {
			for _, a := range sizes {
				for _, b := range sizes {
					parts := [2]distinct{newDistinct(precision), newDistinct(precision)}
					both := min(a, b) / 2 // in both
					for i := range a + b - both {
						hash := random.Uint64()
						if i < a {
							parts[0].add(precision, hash)
						}
						if i >= a-both {
							parts[1].add(precision, hash)
						}
					}
					parts[0].merge(precision, &parts[1])
					got, want := parts[0].estimate(), float64(a+b-both)
					if want < float64(few(precision)) && got != int64(want) {
						t.Fatalf("precision %d, %d and %d keys: got %d, want %v", precision, a, b, got, want)
					}
					if runs++; math.Abs(float64(got)-want) > max(1, want*k.Hour().Count().Error/100) {
						off++
					}
				}
			}
		}
		if off > runs/20+4*int(math.Sqrt(float64(runs)/20)) {
			t.Errorf("precision %d: %d of %d are off by more than %.1f %%", precision, off, runs, k.Hour().Count().Error)
		}
	}
}

// TestBytes: a list takes no more memory than the registers that follow it, and both about as
// much as reported.
func TestBytes(t *testing.T) {
	for _, precision := range []int{Fine, Coarse} {
		for _, n := range []int{0, few(precision) / 2, few(precision) - 1, few(precision), testkit.Steps(1000, 10_000)} {
			const of = 500
			random := rand.New(rand.NewPCG(uint64(n), uint64(precision)))
			before := heapBytes()
			all := make([]distinct, of)
			for i := range all {
				all[i] = newDistinct(precision)
				for range n {
					all[i].add(precision, random.Uint64())
				}
			}
			took, reported := float64(heapBytes()-before)/of-float64(unsafe.Sizeof(all[0])), float64(all[0].bytes(precision))
			t.Logf("precision %d, %d keys: %.0f bytes, reported %.0f", precision, n, took, reported)
			if took > float64(int(1)<<precision+80) || math.Abs(took-reported) > 0.25*reported {
				t.Error("want that about, and no more than registers take")
			}
			runtime.KeepAlive(all)
		}
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestKeys compares with sets of the keys, over days with pauses: each span has the keys of
// its halves and no others.
func TestKeys(t *testing.T) {
	type use struct {
		at   time.Time
		hash uint64
	}
	for seed := range testkit.Steps(3, 30) {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		k := New(Fine)
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(24*60)) * time.Minute)
		began := now
		var uses []use
		for range 300 {
			k.Turn(now)
			for range random.IntN(3) {
				hash := random.Uint64()
				if len(uses) > 0 && random.IntN(2) == 0 {
					hash = uses[max(0, len(uses)-1-random.IntN(20))].hash // a repeated key
				}
				uses = append(uses, use{now, hash})
				k.Seen(hash)
			}
			for half, got := range map[time.Duration]Count{HourHalf: k.Hour().Count(), DayHalf: k.Day().Count()} {
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

// TestKeysKinds: denied keys and keys near a limit are told apart, and the peak ends with its
// span.
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
	for _, got := range []Count{k.Hour().Count(), k.Day().Count()} {
		if !about(got.Seen, 1000) || !about(got.Denied, 100) || !about(got.Near, 199) || got.Peak != 0.999 {
			t.Errorf("got %+v", got)
		}
	}
	k.Turn(now.Add(time.Hour))
	if got := k.Hour().Count(); got.Seen != 0 || got.Peak != 0 {
		t.Errorf("an hour later: %+v", got)
	}
	if got := k.Day().Count(); !about(got.Denied, 100) || got.Peak != 0.999 {
		t.Errorf("the day: %+v", got)
	}
}

// TestKeysConcurrently: counts of concurrent goroutines are not lost.
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
	if got, want := together.Hour().Count(), alone.Hour().Count(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// BenchmarkSeen measures the counting of a key: of a few busy ones, and of a new one.
func BenchmarkSeen(b *testing.B) {
	for name, hash := range map[string]func(*rand.Rand) uint64{
		"busy": func(r *rand.Rand) uint64 { return uint64(r.IntN(32)) << kinds },
		"new":  (*rand.Rand).Uint64,
	} {
		b.Run(name, func(b *testing.B) {
			k := New(Fine)
			b.RunParallel(func(pb *testing.PB) {
				random := rand.New(rand.NewPCG(rand.Uint64(), 1))
				for pb.Next() {
					k.Seen(hash(random))
				}
			})
		})
	}
}
