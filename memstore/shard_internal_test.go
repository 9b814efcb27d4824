// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// known are versions whose states have every shape that a slot can have.
func known(t testing.TB, r *registry) []*version {
	t.Helper()
	var all []*version
	for _, text := range []string{
		"10/min", "65537/min", "1000000007/min", "10/min interval-refill", "10/min fixed-window",
		"10/min warm-up 1h", "1000000007/min warm-up 1ms",
		"10/min sliding-counter", "10/min sliding-counter sub-windows 6", "10/min sliding-log",
	} {
		all = append(all, r.enter("s", term(t, text), 1))
	}
	return append(all, nil) // of slots in flight
}

// randomState returns a state that v could have written.
func randomState(rnd *rand.Rand, v *version, now int64) algo.State {
	s := algo.State{Idle: now + 1 + rnd.Int64N(1e9), A: rnd.Int64N(1 << 53)}
	if v != nil {
		s.By = v.term
	}
	switch {
	case balance(v):
		s.A = rnd.Int64N(v.term.Rate.Den)
		if warms(v) {
			s.B = 1 + rnd.Int64N(v.term.WarmUp.Microseconds())
		}
		if rnd.IntN(2) == 0 {
			s.Since, s.Last = now-rnd.Int64N(1e9), now+rnd.Int64N(1e9)
		}
		return s
	case v != nil && v.term.Burst > 0:
		s.Since = rnd.Int64N(2) * (now - rnd.Int64N(1e9))
	default:
		s.B, s.Reserved = rnd.Int64N(1<<53), rnd.IntN(2) == 0
	}
	if rnd.IntN(2) == 0 {
		s.A, s.B = s.A&pairMask, s.B&pairMask
	}
	if v != nil && sizeOfForm(v.term) != sizeRing {
		return s
	}
	s.B &= maxRingB
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
	return s
}

func equal(a, b *algo.State) bool {
	return a.Idle == b.Idle && a.A == b.A && a.B == b.B && a.Reserved == b.Reserved && a.By == b.By && a.Since == b.Since && a.Last == b.Last &&
		a.Head == b.Head && a.Len == b.Len && slices.Equal(a.Ring, b.Ring)
}

// holder is a shard with the data to store states in it.
type holder struct {
	*shard
	all []*version
}

func newHolder(t testing.TB, most int) *holder {
	t.Helper()
	h := &holder{shard: new(shard)}
	r := new(registry)
	h.init(most, r, make([]atomic.Pointer[wordArray], 1))
	h.all = known(t, r)
	return h
}

// slotSizes are the sizes of the tables.
var slotSizes = []stateSize{sizeFixed, sizeRing, sizePair}

// wordsOnly says that a state is kept in a word.
const wordsOnly = -1

// wordTerm is the limit that writes the word of an identity: every second one a window.
func (h *holder) wordTerm(id uint64) *sluice.Term {
	if id>>38&1 == 0 {
		return h.all[0].term
	}
	return h.all[4].term
}

// wordState returns a state that is kept in the word of an identity.
func (h *holder) wordState(rnd *rand.Rand, id uint64, now int64) algo.State {
	t := h.wordTerm(id)
	s := algo.State{Idle: now + 1 + rnd.Int64N(1e9), A: rnd.Int64N(1 + remMask)}
	if t.Wide {
		s.Idle += t.Micros - s.Idle%t.Micros
		s.A = []int64{s.A, rnd.Int64N(1 << wideABits), 1 << remBits, 1<<wideABits - 1}[rnd.IntN(4)]
	}
	return s
}

func (h *holder) put(which int, id uint64, now int64, s *algo.State) {
	if which == wordsOnly {
		h.storeWord(id, now, s, used, nil)
		return
	}
	v := h.all[which]
	size := sizeRing
	if v != nil {
		size = sizeOf(v, s)
	}
	for _, other := range slotSizes {
		if other != size {
			h.forget(other, id)
		}
	}
	h.shard.store(size, id, now, v, s, used, 0, nil)
}

func (h *holder) get(which int, id uint64, now int64, s *algo.State) bool {
	if which == wordsOnly {
		word, live := h.word(h.wordTerm(id), id, now, s)
		h.words.unlock(id, word)
		return live
	}
	for _, size := range slotSizes {
		t := &h.tables[size]
		if i := h.find(t, id, now); i >= 0 {
			h.read(t, i, s)
			return true
		}
	}
	return false
}

func (h *holder) drop(which int, id uint64) {
	if which == wordsOnly {
		h.forgetWord(id)
		return
	}
	for _, size := range slotSizes {
		h.forget(size, id)
	}
}

// TestShardEqualsMap stores, loads, changes and forgets random states of all kinds, lets
// others become idle, and compares all with a map.
func TestShardEqualsMap(t *testing.T) {
	t.Parallel()
	type name struct {
		words bool
		id    uint64
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 2))
			now := int64(1e15)
			sh := newHolder(t, 1<<20)
			want := make(map[name]algo.State)
			where := func(n name) int {
				if n.words {
					return wordsOnly
				}
				return 0
			}
			check := func(n name) {
				t.Helper()
				var got algo.State
				found := sh.get(where(n), n.id, now, &got)
				w, there := want[n]
				if there = there && w.Idle > now; found != there || found && !equal(&got, &w) {
					t.Fatalf("%v: got %t %+v, want %t %+v", n, found, got, there, w)
				}
				for _, size := range slotSizes {
					if tab := &sh.tables[size]; tab.n > 0 {
						if i := tab.find(n.id); i < 0 && ^i != tab.freeSlot(n.id) {
							t.Fatalf("%v: belongs at %d of size %d, not %d", n, tab.freeSlot(n.id), size, ^i)
						}
					}
				}
			}
			for step := range testkit.Steps(3000, 30_000) {
				// Identities that crowd together, so that they push each other on.
				n := name{rnd.IntN(4) == 0, 1 + rnd.Uint64N(600)<<38}
				switch rnd.IntN(8) {
				case 0:
					sh.drop(where(n), n.id)
					delete(want, n)
				case 1:
					now += rnd.Int64N(1e7)
				default:
					which := rnd.IntN(len(sh.all))
					s := randomState(rnd, sh.all[which], now)
					if n.words {
						which, s = wordsOnly, sh.wordState(rnd, n.id, now)
					}
					kept := s
					kept.Ring = slices.Clone(s.Ring)
					sh.put(which, n.id, now, &s)
					want[n] = kept
				}
				check(n)
				if step%1000 == 0 {
					for n := range want {
						check(n)
					}
					checkSlab(t, sh.shard)
					checkRefs(t, sh)
				}
			}
		})
	}
}

// checkRefs compares the number of slots that name each version with the version's count.
func checkRefs(t *testing.T, h *holder) {
	t.Helper()
	refs := make(map[uint32]int64)
	for f := range h.tables {
		tb := &h.tables[f]
		for i := range tb.n {
			if tb.id(i) != 0 {
				refs[tb.by(i)]++
			}
		}
	}
	for _, v := range h.all {
		if v != nil && v.refs.Load() != refs[v.index] {
			t.Fatalf("%v: got %d slots counted, want %d", v.term.Limit, v.refs.Load(), refs[v.index])
		}
	}
}

// checkSlab compares the counters of the slab with the content of the slots.
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
			if tb.size == sizeRing {
				w := tb.slots[i*tb.stride:]
				if b, size := blockOf(w); b != 0 {
					live[b.chunk()] += size
				}
			}
		}
		if inTable != tb.used {
			t.Fatalf("size %d: got %d used, want %d", f, tb.used, inTable)
		}
		used += inTable
	}
	occupied, words := 0, 0
	if a := sh.words.array.Load(); a != nil {
		for i := range a.slots {
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

// TestIdleBeyondTheEpoch stores instants far apart: the table moves its epoch with the clock,
// and an instant more than 2.2 years ahead saturates.
func TestIdleBeyondTheEpoch(t *testing.T) {
	t.Parallel()
	const year = int64(365 * 24 * 3600 * 1e6)
	for _, which := range []int{wordsOnly, 0, 4, 7} {
		t.Run(fmt.Sprint("kind ", which), func(t *testing.T) {
			t.Parallel()
			sh := newHolder(t, 100)
			most := int64(idleMax)
			if which == wordsOnly {
				most = wordIdleMax
			}
			for _, tt := range []struct {
				name       string
				now        int64
				idle, want int64
			}{
				{"at the start of time", 0, 1, 1},
				{"today", 55 * year, 55*year + 1, 55*year + 1},
				{"a year later", 56 * year, 58 * year, 58 * year},
				{"20 years later", 76 * year, 76*year + 5, 76*year + 5},
				{"40 years earlier", 36 * year, 36*year + 7, 36*year + 7},
				{"20 years ahead", 36 * year, 56 * year, 36*year - epochLead + most},
			} {
				s := algo.State{Idle: tt.idle, A: 3}
				sh.put(which, 77, tt.now, &s)
				var got algo.State
				if !sh.get(which, 77, tt.now, &got) || got.Idle != tt.want || got.A != 3 {
					t.Errorf("%s: got %+v, want idle at %d", tt.name, got, tt.want)
				}
			}
		})
	}
}

// TestWideIdleBeyondTheEpoch is TestIdleBeyondTheEpoch of words with many units: such a window
// keeps its instant, or is as far ahead as the clock has stepped back.
func TestWideIdleBeyondTheEpoch(t *testing.T) {
	t.Parallel()
	const day, id = int64(24 * 3600 * 1e6), 1 << 38
	for _, c := range []struct {
		name             string
		now, idle, least int64
	}{
		{"at the start of time", 0, 60e6, 60e6},
		{"today", 20_000 * day, 20_000*day + 60e6, 20_000*day + 60e6},
		{"in 98 days", 20_000 * day, 20_098 * day, 20_098 * day},
		{"a year later", 20_365 * day, 20_365*day + 120e6, 20_365*day + 120e6},
		{"ten years earlier", 16_700 * day, 16_700*day + 60e6, 16_700*day + 60e6},
		{"ten years ahead", 16_700 * day, 20_350 * day, 16_700*day + 98*day},
	} {
		for _, fresh := range []bool{false, true} {
			sh := newHolder(t, 100)
			if !fresh {
				sh.put(wordsOnly, id, 18_000*day, &algo.State{Idle: 18_001 * day, A: 1 << 20})
			}
			s, got := algo.State{Idle: c.idle, A: 1<<wideABits - 1}, algo.State{}
			sh.put(wordsOnly, id, c.now, &s)
			if live := sh.get(wordsOnly, id, c.now, &got); !live || got.A != s.A || got.Idle > s.Idle || got.Idle < c.least {
				t.Errorf("%s, fresh %t: got %t, %+v, want %+v, or idle at %d", c.name, fresh, live, got, s, c.least)
			}
		}
	}
}

// BenchmarkRebuild replaces the block of a full shard: the longest time of a call beside its
// decision.
func BenchmarkRebuild(b *testing.B) {
	_, perShard := shardsFor(bounds.DefaultMaxKeys)
	for _, which := range []int{wordsOnly, 4, 7} {
		b.Run(fmt.Sprint("kind ", which), func(b *testing.B) {
			sh := newHolder(b, perShard)
			rnd := rand.New(rand.NewPCG(1, 1))
			for range perShard {
				s := algo.State{Idle: 2e15, A: 1}
				sh.put(which, rnd.Uint64()>>shardBits|1, 1e15, &s)
			}
			b.ReportAllocs()
			for b.Loop() {
				switch which {
				case wordsOnly:
					sh.rebuildWords(1e15, 1e15)
				case 7:
					sh.rebuild(&sh.tables[sizeRing], 1e15)
				default:
					sh.rebuild(&sh.tables[sizePair], 1e15)
				}
			}
		})
	}
}
