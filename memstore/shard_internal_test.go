// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/algo"
)

// randomState returns a state that form f can hold.
func randomState(rnd *rand.Rand, f algo.Form, now int64) algo.State {
	s := algo.State{Idle: now + 1 + rnd.Int64N(1e9)}
	if f != algo.FormWord {
		s.Reserved = rnd.IntN(2) == 0
	}
	switch f {
	case algo.FormWord:
		s.A = rnd.Int64N(1 << 16)
	case algo.FormPair:
		s.A = rnd.Int64() - rnd.Int64()
	case algo.FormDuo:
		s.A, s.B = rnd.Int64N(1<<32), rnd.Int64N(1<<32)
	default:
		s.A, s.B = rnd.Int64(), -rnd.Int64()
	}
	if f == algo.FormRing {
		n := rnd.IntN(40)
		if rnd.IntN(50) == 0 {
			n = rnd.IntN(3 * maxChunk)
		}
		for range n {
			s.Ring = append(s.Ring, rnd.Uint64())
		}
		s.Ring = slices.Clip(s.Ring)
		if n > 0 {
			s.Head, s.Len = rnd.IntN(n), rnd.IntN(n+1)
		}
	}
	return s
}

func equal(a, b *algo.State) bool {
	return a.Idle == b.Idle && a.A == b.A && a.B == b.B && a.Reserved == b.Reserved &&
		a.Head == b.Head && a.Len == b.Len && slices.Equal(a.Ring, b.Ring)
}

// TestShardEqualsMap stores, loads, changes and forgets random states of all
// forms, lets others die, and compares all with a map.
func TestShardEqualsMap(t *testing.T) {
	t.Parallel()
	type name struct {
		form algo.Form
		id   uint64
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 2))
			now := int64(1e15)
			var sh shard
			sh.init(1<<20, new(registry))
			want := make(map[name]algo.State)
			check := func(n name) {
				t.Helper()
				var got algo.State
				word, found := sh.load(n.form, n.id, now, &got)
				sh.words.thaw(n.id, word)
				w, there := want[n]
				if there = there && w.Idle > now; found != there || found && !equal(&got, &w) {
					t.Fatalf("%v: got %t %+v, want %t %+v", n, found, got, there, w)
				}
			}
			for step := range 30_000 {
				// Identities that crowd together, so that they push each other on.
				n := name{algo.Form(rnd.IntN(int(forms))), 1 + rnd.Uint64N(600)<<38}
				switch rnd.IntN(8) {
				case 0:
					sh.forget(n.form, n.id)
					delete(want, n)
				case 1: // changed in place
					var s algo.State
					word, found := sh.load(n.form, n.id, now, &s)
					if !found {
						sh.words.thaw(n.id, word)
					} else {
						if len(s.Ring) > 0 {
							s.Ring[0]++
						}
						s.Idle++
						kept := s
						kept.Ring = slices.Clone(s.Ring)
						sh.store(n.form, n.id, now, &s, used, nil)
						want[n] = kept
					}
				case 2:
					now += rnd.Int64N(1e7)
				default:
					s := randomState(rnd, n.form, now)
					sh.store(n.form, n.id, now, &s, used, nil)
					want[n] = s
				}
				check(n)
				if step%1000 == 0 {
					for n := range want {
						check(n)
					}
					checkSlab(t, &sh)
				}
			}
		})
	}
}

// checkSlab compares what the slab says of itself with what the slots hold.
func checkSlab(t *testing.T, sh *shard) {
	t.Helper()
	live := make([]int, len(sh.slab.chunks))
	used := 0
	for f := range sh.tables {
		tb := &sh.tables[f]
		inTable := 0
		for i := range tb.n {
			if tb.id(i) == 0 {
				continue
			}
			inTable++
			if tb.form == algo.FormRing {
				w := tb.slots[i*tb.stride:]
				if b := block(w[ringBlock]); b != 0 {
					live[b.chunk()] += int(w[ringShape] >> 40)
				}
			}
		}
		if inTable != tb.used {
			t.Fatalf("form %d: got %d used, want %d", f, tb.used, inTable)
		}
		used += inTable
	}
	occupied, words := 0, 0
	if a := sh.words.array.Load(); a != nil {
		for i := range a.n {
			if a.id(i) != 0 {
				occupied++
			}
			if *a.word(i) != 0 {
				words++
			}
		}
	}
	if sh.words.occupied != occupied || sh.words.used != words || sh.used() != used+words {
		t.Fatalf("got %d words in %d slots of %d states, want %d in %d of %d", sh.words.used, sh.words.occupied, sh.used(), words, occupied, used+words)
	}
	total, idle := 0, sh.slab.free
	for i, c := range sh.slab.chunks {
		if c.live != live[i] {
			t.Fatalf("chunk %d: got %d words live, want %d", i, c.live, live[i])
		}
		total += len(c.words)
		if i == sh.slab.cur {
			idle += len(c.words) - c.mark
		}
		idle += live[i]
	}
	// Each word is live, on a list, or not handed out yet.
	if sh.slab.total != total || idle != total {
		t.Fatalf("got %d words in all, %d accounted for, want %d", sh.slab.total, idle, total)
	}
}

// TestIdleBeyondTheEpoch stores instants far apart: the table moves its epoch
// with the clock, and what lies more than 8.9 years ahead saturates, or 2.2 in a
// word.
func TestIdleBeyondTheEpoch(t *testing.T) {
	t.Parallel()
	const year = int64(365 * 24 * 3600 * 1e6)
	tests := []struct {
		name       string
		now        int64
		idle, want int64
	}{
		{"at the start of time", 0, 1, 1},
		{"today", 55 * year, 55*year + 1, 55*year + 1},
		{"a year later", 56 * year, 58 * year, 58 * year},
		{"20 years later", 76 * year, 76*year + 5, 76*year + 5},
		{"40 years earlier", 36 * year, 36*year + 7, 36*year + 7},
		{"20 years ahead", 36 * year, 56 * year, 36*year - epochLead + idleMax},
	}
	for f := range forms {
		tests := slices.Clone(tests)
		if f == algo.FormWord {
			tests[len(tests)-1].want += wordIdleMax - idleMax
		}
		t.Run(fmt.Sprint("form ", f), func(t *testing.T) {
			t.Parallel()
			var sh shard
			sh.init(100, new(registry))
			for _, tt := range tests {
				s := algo.State{Idle: tt.idle, A: 3}
				sh.store(f, 77, tt.now, &s, used, nil)
				var got algo.State
				word, found := sh.load(f, 77, tt.now, &got)
				sh.words.thaw(77, word)
				if !found || got.Idle != tt.want || got.A != 3 {
					t.Errorf("%s: got %+v, want idle at %d", tt.name, got, tt.want)
				}
			}
		})
	}
}

// BenchmarkRebuild replaces the block of a full shard: the longest that a call
// can take, but for what it decides.
func BenchmarkRebuild(b *testing.B) {
	_, perShard := shardsFor(DefaultMaxKeys)
	for f := range forms {
		b.Run(fmt.Sprint("form ", f), func(b *testing.B) {
			var sh shard
			sh.init(perShard, new(registry))
			rnd := rand.New(rand.NewPCG(1, 1))
			for range perShard {
				s := algo.State{Idle: 2e15, A: 1}
				sh.store(f, rnd.Uint64()>>shardBits|1, 1e15, &s, used, nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				if f == algo.FormWord {
					sh.rebuildWords(1e15)
				} else {
					sh.rebuild(&sh.tables[f], 1e15)
				}
			}
		})
	}
}
