// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
)

// Sequences configures [Exhaustive], which tries all sequences of Depth operations of an
// alphabet, in every world, with ticks of each length.
type Sequences struct {
	Depth int
	Ticks []int64 // µs; a world's windows are of whole ticks
	// Events, if not empty, are the operations of every alphabet, in place of
	// each world's own: of "takes", "receipts", "waits", "upto", "debt", "keys".
	Events string
	// Keep is the maximum number of failures reported for a world; 0 means 1.
	Keep int
}

// Exhaustive plays all sequences on stores, each with keys of its own, and logs their number.
func Exhaustive(t *testing.T, open Open, cfg Sequences) {
	t.Helper()
	var worlds, sequences, steps atomic.Int64
	t.Cleanup(func() { // after the parallel plays
		t.Logf("all sequences of %d operations: %d worlds, %d sequences, %d steps", cfg.Depth, worlds.Load(), sequences.Load(), steps.Load())
	})
	for _, tick := range cfg.Ticks {
		for _, w := range smallWorlds(t, tick) {
			t.Run(fmt.Sprintf("%s of %s", w.Name, micros(tick)), func(t *testing.T) {
				t.Parallel()
				r := exhaust(t, w, open, tick, cfg)
				worlds.Add(1)
				sequences.Add(int64(r.count))
				steps.Add(int64(r.steps))
			})
		}
	}
}

// period is the number of ticks between two sequences: longer than the life of any of their
// states, and a multiple of all windows of up to 4 ticks.
const period = 12 * 1000

func exhaust(t *testing.T, w *World, open Open, tick int64, cfg Sequences) *runner {
	t.Helper()
	if cfg.Events != "" {
		w.events = cfg.Events
	}
	alphabet := w.alphabet(tick)
	r := newRunner(t, w, open, tick)
	broken := make(map[string]bool)
	word := make([]int, cfg.Depth)
	seq := make([]Step, cfg.Depth)
	for {
		for i, k := range word {
			seq[i] = alphabet[k]
		}
		if f := r.run(seq); f != nil && !broken[f.rule()] && len(broken) < max(cfg.Keep, 1) {
			broken[f.rule()] = true
			report(t, w, open, f, "all sequences")
			if len(broken) >= max(cfg.Keep, 1) {
				return r
			}
		}
		i := len(word) - 1
		for ; i >= 0; i-- {
			if word[i]++; word[i] < len(alphabet) {
				break
			}
			word[i] = 0
		}
		if i < 0 {
			return r
		}
	}
}

// runner plays sequences on one store, each with new keys, and with new scopes if the start of
// a rule matters. When the store's clock comes near its end, runner replaces the store.
type runner struct {
	t     testing.TB
	w     *compiled
	open  Open
	store Store
	tick  int64
	now   int64
	count int
	steps int
	last  *checker
}

func newRunner(t testing.TB, w *World, open Open, tick int64) *runner {
	t.Helper()
	c, err := w.compile("")
	if err != nil {
		t.Fatal(err)
	}
	return &runner{t: t, w: c, open: open, store: open(t), tick: tick, now: start}
}

func (r *runner) run(seq []Step) *failure {
	if r.count++; r.w.Starts {
		if err := r.w.rescope(strconv.Itoa(r.count)); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.now += period * r.tick; r.now > 4_000_000_000_000_000 { // a store's clock ends in 2112
		r.store, r.now = r.open(r.t), start
	}
	j := newChecker(r.w, r.store, r.now, strconv.Itoa(r.count)+"#")
	r.last = j
	defer func() { r.steps += j.steps }()
	for i := range seq {
		if _, err := j.do(&seq[i]); err != nil {
			return &failure{append([]Step(nil), seq[:i+1]...), err}
		}
	}
	return nil
}
