// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"testing"
)

// Search configures [BreadthFirst]. In every world it tries all states of the specification
// that up to Depth operations of the alphabet lead to, until the store has decided Steps
// operations.
type Search struct {
	Depth int
	Steps int     // for each world and tick
	Ticks []int64 // µs
}

// BreadthFirst plays the shortest sequence to every state that it finds, followed by every
// operation, on stores. As a Store does not show its state, states are distinguished by that
// of the specification. BreadthFirst logs their number, and in how many worlds all states of a
// depth were tried.
func BreadthFirst(t *testing.T, open Open, cfg Search) {
	t.Helper()
	var mu sync.Mutex // guards the variables below
	var all coverage
	whole := make([]int, cfg.Depth+1) // worlds with all states of a depth tried
	worlds, part := 0, 0.0
	t.Cleanup(func() { // after the parallel searches
		t.Logf("breadth first: %d worlds, %d states, %d steps; of the depth at which the steps end, %.0f %% on average", worlds, all.states, all.steps, 100*part/float64(max(worlds, 1)))
		for depth, n := range whole {
			if depth > 0 && n > 0 {
				t.Logf("all states at depth %d: in %d worlds", depth, n)
			}
		}
	})
	for _, tick := range cfg.Ticks {
		for _, w := range smallWorlds(t, tick) {
			t.Run(fmt.Sprintf("%s of %s", w.Name, micros(tick)), func(t *testing.T) {
				t.Parallel()
				c := search(t, w, open, tick, cfg)
				mu.Lock()
				defer mu.Unlock()
				all.states, all.steps = all.states+c.states, all.steps+c.steps
				worlds, part = worlds+1, part+c.part
				for depth := range c.depth + 1 {
					whole[depth]++
				}
			})
		}
	}
}

// coverage counts the states and steps that a search has tried.
type coverage struct {
	states, steps int
	depth         int     // at which all states were tried
	part          float64 // part of the states one deeper that were tried
}

func search(t *testing.T, w *World, open Open, tick int64, cfg Search) coverage {
	t.Helper()
	alphabet := w.alphabet(tick)
	r := newRunner(t, w, open, tick)
	seed := maphash.MakeSeed()
	seen := map[uint64]bool{}
	level := [][]byte{nil}
	covered := func(depth int, part float64) coverage {
		return coverage{states: len(seen), steps: r.steps, depth: depth, part: part}
	}
	for depth := 1; depth <= cfg.Depth; depth++ {
		var next [][]byte
		for i, path := range level {
			for k := range alphabet {
				seq := make([]Step, 0, depth)
				for _, b := range path {
					seq = append(seq, alphabet[b])
				}
				if f := r.run(append(seq, alphabet[k])); f != nil {
					report(t, w, open, f, "breadth first")
					return covered(depth-1, 0)
				}
				state := maphash.Bytes(seed, r.last.state(tick))
				if !seen[state] {
					seen[state] = true
					next = append(next, append(slices.Clone(path), byte(k)))
				}
			}
			if r.steps > cfg.Steps {
				return covered(depth-1, float64(i+1)/float64(len(level)))
			}
		}
		level = next
	}
	return covered(cfg.Depth, 1)
}

// state returns the specification's state of all keys, relative to now: equal states have
// equal decisions.
func (j *checker) state(tick int64) []byte {
	var b []byte
	put := func(ns ...int64) {
		for _, n := range ns {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
	}
	ago := func(at int64) int64 { return max(j.now-at, -1<<40) }
	places := make([]place, 0, len(j.accounts))
	for p := range j.accounts {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := compareTexts(a.series, b.series); c != 0 {
			return c
		}
		return a.key - b.key
	})
	for _, p := range places {
		l := j.accounts[p]
		put(int64(p.key), j.phase(l.series))
		if slow, fast := l.rates(nil); slow != nil && l.bal.at(j.now, slow, fast) != (between{}) {
			put(l.bal.lo, l.bal.hi, ago(l.bal.last), ago(l.bal.lapse.lo), ago(l.bal.lapse.hi))
		}
		if l.missed.missing > 0 && ago(l.missed.grid) < l.series.longest {
			put(l.missed.missing, ago(l.missed.grid))
		}
		put(min(ago(l.void), 16*tick), min(ago(l.front.lo), 0), min(ago(l.front.hi), 0), flags(l.loose, l.waited, l.refunded, l.unsure))
		if d := l.blocking; len(d.denials) > 0 || d.until > j.now {
			put(min(ago(d.until), 0), int64(len(d.denials)), min(ago(d.end), 0), flags(d.unsure))
			for _, at := range d.denials {
				put(ago(at))
			}
		}
		if j.world.Starts {
			put(min(ago(l.start.lo), 16*tick))
		}
		for _, v := range l.used {
			b = append(b, v.text...)
		}
		for i := range l.units {
			u := &l.units[i]
			if ago(u.at) < 2*l.series.longest {
				put(ago(u.at), u.n, u.most)
			}
		}
	}
	for i := range j.receipts {
		if r := &j.receipts[i]; r.held > 0 {
			put(min(ago(int64(r.at)), 16*tick), r.held)
			for _, p := range r.charges {
				for _, v := range j.world.terms[p.Plan] {
					put(flags(r.step <= j.accounts[place{v.series, p.Key}].voided))
				}
			}
		}
	}
	return b
}

// phase returns the position of now in the windows aligned to the clock.
func (j *checker) phase(s *series) int64 {
	length := int64(1)
	for _, v := range s.versions {
		if v.kind == fixedKind || v.kind == counterKind {
			length = length / gcd(length, v.window) * v.window
		}
	}
	return j.now % length
}

func compareTexts(a, b *series) int {
	switch x, y := a.versions[0].text, b.versions[0].text; {
	case x < y:
		return -1
	case x > y:
		return 1
	default:
		return 0
	}
}

func flags(all ...bool) (n int64) {
	for i, set := range all {
		if set {
			n |= 1 << i
		}
	}
	return n
}
