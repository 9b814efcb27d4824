// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestCountTakeEqualsDecide plays traces of all operations and decides each take also on
// a copy of the state before it.
func TestCountTakeEqualsDecide(t *testing.T) {
	eachVariant(t, of(sluice.FixedWindow{}, sluice.SlidingCounter{}, sluice.TokenBucket{}), func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		term := p.plan.Term(0)
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40) {
			now = max(now+e.Gap, 0)
			s := clone(p.states()[0])
			before := clone(s)
			want := p.step(now, e)
			if e.Op != sluice.OpTake || term.Behind > 1 {
				continue
			}
			if s.Zero() || s.Idle <= now {
				if term.Kind != compiled.SlidingCounter || e.Cost == 0 {
					continue
				}
				s, before = algo.State{}, algo.State{}
			}
			var got sluice.Decision
			written, ok := algo.CountTake(term, &s, now, e.Cost, &got)
			switch after := p.states()[0]; {
			case !ok && (!equalStates(s, before) || got != sluice.Decision{}):
				t.Fatalf("%v: take %d at %d of %+v: not ok, but %+v and the state %+v", l, e.Cost, now, before, got, s)
			case !ok && term.Burst > 0 && (term.Refill == sluice.Continuous || before.Since != 0 || term.Lent > 0 ||
				before.Idle-(before.A+term.Quota-1)/term.Quota*term.Micros > now): // units are reserved
			case !ok && term.Kind == compiled.SlidingCounter && term.Debt > 0 && before.A > term.Quota: // some is owed
			case !ok && e.Cost <= term.Full && !before.Reserved && !l.CountDenied && !testkit.Counter(l).PreFilled && term.InitialDeficit == 0 && e.Gap >= 0:
				t.Fatalf("%v: take %d at %d of %+v: not ok, though it is what most takes are", l, e.Cost, now, before)
			case ok && (got != want || written != (want.Allowed && e.Cost > 0) || !equalStates(s, after)):
				t.Fatalf("%v: take %d at %d of %+v: got %+v, %t and the state %+v, want %+v and %+v", l, e.Cost, now, before, got, written, s, want, after)
			}
		}
	})
}
