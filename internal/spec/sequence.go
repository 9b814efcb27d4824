// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// start is the first time of clocks: a multiple of every window that the exhaustive drivers
// use, so that the Advance of a sequence is its position on the clock.
const start = 1_788_480_000_000_000

// failure is the fault of an answer, with the steps that led to it.
type failure struct {
	steps []Step // up to the one that failed
	err   error
}

// rule returns the name of the rule that was broken.
func (f *failure) rule() string {
	name, _, _ := strings.Cut(f.err.Error(), ":")
	return name
}

// play plays steps on a new store. It returns the failure, or nil, and a
// readable list of the steps.
func play(t testing.TB, w *World, open Open, steps []Step) (*failure, []string) {
	t.Helper()
	c, err := w.compile("")
	if err != nil {
		t.Fatal(err)
	}
	store := open(t)
	j := newChecker(c, store, start, "k")
	var lines []string
	for i := range steps {
		d, err := j.do(&steps[i])
		lines = append(lines, fmt.Sprintf("%2d. %s", i+1, w.describe(&steps[i], j.now-start, d)))
		if err != nil {
			return &failure{slices.Clone(steps[:i+1]), err}, lines
		}
	}
	return nil, lines
}

// numbered gives steps their positions as IDs, so that refunds find their receipts when other
// steps are removed.
func numbered(steps []Step) []Step {
	steps = slices.Clone(steps)
	for i := range steps {
		if steps[i].ID == 0 {
			steps[i].ID = i + 1
		}
	}
	return steps
}

// shrink removes steps and simplifies their numbers as long as the same rule is broken. It
// plays at most a few thousand sequences.
func shrink(t testing.TB, w *World, open Open, f *failure) *failure {
	t.Helper()
	f.steps = numbered(f.steps)
	budget := 3000
	try := func(steps []Step) bool {
		if budget--; budget < 0 {
			return false
		}
		g, _ := play(t, w, open, steps)
		if g == nil || g.rule() != f.rule() {
			return false
		}
		*f = *g
		return true
	}
	for n := max(len(f.steps)/2, 1); ; n /= 2 {
		for i := 0; i+n <= len(f.steps) && len(f.steps) > 1; {
			if !try(without(f.steps, i, n, true)) && !try(without(f.steps, i, n, false)) {
				i += n
			}
		}
		if n <= 1 {
			break
		}
	}
	for i := range len(f.steps) {
		plainer(f, i, try)
	}
	for i := 0; i < len(f.steps) && len(f.steps) > 1; {
		if !try(without(f.steps, i, 1, true)) && !try(without(f.steps, i, 1, false)) {
			i++
		}
	}
	return f
}

// without returns steps without n of them. If passes is true, their time still passes.
func without(steps []Step, i, n int, passes bool) []Step {
	rest := slices.Delete(slices.Clone(steps), i, i+n)
	if passes && i < len(rest) {
		for _, s := range steps[i : i+n] {
			rest[i].Advance += s.Advance
		}
	}
	return rest
}

// plainer tries smaller numbers in a step.
func plainer(f *failure, i int, try func([]Step) bool) {
	for _, change := range []func(*Step){
		func(s *Step) { s.Asks = false },
		func(s *Step) { s.Outcomes = false },
		func(s *Step) { s.More = nil },
		func(s *Step) { s.Advance = 0 },
		func(s *Step) { s.Advance -= s.Advance % 1_000_000 },
		func(s *Step) { s.Advance -= s.Advance % 1000 },
		func(s *Step) { s.Plan = 0 },
		func(s *Step) { s.Key = 0 },
		func(s *Step) { s.Give = All },
		func(s *Step) { s.Cost = 1 },
		func(s *Step) { s.Cost /= 2 },
		func(s *Step) { s.Cost-- },
		func(s *Step) { s.Cost-- },
		func(s *Step) { s.Wait -= s.Wait % 1_000_000 },
	} {
		if i >= len(f.steps) {
			return
		}
		steps := slices.Clone(f.steps)
		if change(&steps[i]); steps[i].Cost < 0 || same(&steps[i], &f.steps[i]) {
			continue
		}
		try(steps)
	}
}

func same(a, b *Step) bool {
	return a.Advance == b.Advance && a.Plan == b.Plan && a.Key == b.Key && a.Cost == b.Cost && a.Wait == b.Wait &&
		a.Give == b.Give && a.Asks == b.Asks && a.Outcomes == b.Outcomes && len(a.More) == len(b.More)
}

// report shortens a failure and prints it.
func report(t testing.TB, w *World, open Open, f *failure, source string) {
	t.Helper()
	g, _ := play(t, w, open, f.steps)
	if g == nil {
		t.Errorf("%s, %s: %v\nIt does not fail on a new store and keys of its own. The steps:\n%s",
			w.Name, source, f.err, w.list(f.steps))
		return
	}
	f = shrink(t, w, open, g)
	_, lines := play(t, w, open, f.steps)
	t.Errorf("%s, %s: %v\n%s", w.Name, source, f.err, strings.Join(lines, "\n"))
}

func (w *World) list(steps []Step) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "%2d. %s\n", i+1, w.describe(&steps[i], 0, nil))
	}
	return b.String()
}
