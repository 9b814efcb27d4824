// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"cmp"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// Limits of one name whose windows or algorithms differ keep states of
// different forms. Each limit decides by its own state, and its admitted units count in the
// states of all live forms, at the same instant. So no form admits more than its bound, and
// all together admit no more than the sum. A form lives until its own window is empty.

// known is a number of units that were admitted no earlier than an instant.
type known struct{ at, units int64 }

// prepareOthers readies the states of the other forms.
func (it *Item) prepareOthers(now int64) {
	for i := range it.Others {
		o := &it.Others[i]
		w := o.By
		settle(counterOf(w), w, o, now)
		o.By = w // settle clears it in a state that starts over
	}
	it.Others = slices.DeleteFunc(it.Others, func(s State) bool { return s.Zero() })
	if it.State.Zero() && len(it.Others) >= bounds.MaxForms {
		it.displace()
	}
}

// seedFrom makes the state of a new form of the key from the other forms: it starts with
// the units of the form that knows most of them within the new window. That depends on now
// only by the units that have left the window, so a denial need not keep it.
func (it *Item) seedFrom(now int64) {
	// A balance may have existed and drained, and a window that the first
	// request opens may have opened before all known units.
	if !it.State.Zero() || it.Term.Burst > 0 || it.Term.OnFirst || blocks(it.Term) {
		return
	}
	since := it.State.Since
	var most int64
	for i := range it.Others {
		if o := &it.Others[i]; !o.Zero() {
			if s, units := seed(it.Term, o, now); units > most {
				it.State, most = s, units
			}
		}
	}
	it.State.Since = since
}

// displace adds no form, because the key has too many: the limit counts in the
// form with the shortest window that is at least as long as its own. If there is none, the
// form with the shortest window makes room. A block neither counts in another state nor
// makes room for one.
func (it *Item) displace() {
	on, shortest := -1, -1
	for i := range it.Others {
		w := it.Others[i].By
		if blocks(w) {
			continue
		}
		if w.Burst == 0 && w.Micros >= it.Term.Micros && (on < 0 || w.Micros < it.Others[on].By.Micros) {
			on = i
		}
		if shortest < 0 || w.Micros < it.Others[shortest].By.Micros {
			shortest = i
		}
	}
	if on < 0 || blocks(it.Term) {
		it.Others = slices.Delete(it.Others, shortest, shortest+1)
		return
	}
	it.on = it.Others[on].By
	t := *it.on
	t.Quota, t.Debt = it.Term.Quota, it.Term.Debt
	it.Term, it.State = &t, it.Others[on]
	it.Others = slices.Delete(it.Others, on, on+1)
}

// seed returns the state with which t starts beside o, and the units that it counts.
func seed(t *sluice.Term, o *State, now int64) (State, int64) {
	c := counterOf(t)
	var s State
	for _, k := range knownOf(o) {
		units := min(k.units, room(t, &s, k.at))
		if units <= 0 || k.at < now-c.horizon(t) {
			continue
		}
		c.spend(t, &s, min(k.at, now), k.at, units)
	}
	if s.Zero() || settle(c, t, &s, now) && s.Zero() {
		return State{}, 0
	}
	return s, c.counted(t, &s, now)
}

// spendOther counts cost in the state of another form, as far as there is room.
// Reserved units count in a bucket from now on, so that no request waits for them there.
func spendOther(o *State, now, at, cost int64) {
	t := o.By
	c := counterOf(t)
	if t.Burst > 0 {
		at = now
	}
	switch cost = min(cost, room(t, o, at)); {
	case cost <= 0:
	case o.Reserved && at < c.instant(t, o):
		c.insert(t, o, at, cost)
	default:
		c.spend(t, o, now, at, cost)
		o.By = t
	}
}

// room returns the number of units of other forms that a state takes: the Burst of a
// bucket, or as many as any limit of the form of a window could count.
func room(t *sluice.Term, s *State, at int64) int64 {
	counted := int64(0)
	switch {
	case blocks(t):
		return 0
	case t.Burst > 0:
		if !s.Zero() {
			counted = counterOf(t).counted(t, s, at)
		}
		return t.Burst - counted
	case t.Kind == compiled.SlidingLog:
		return bounds.MaxLogQuota - s.A
	case t.Kind == compiled.SlidingCounter:
		return bounds.MaxCounterQuota(t.Behind) - s.A - s.B
	}
	return sluice.MaxQuota - s.A - s.B
}

// knownOf returns the units that s counts, oldest first. A bucket does not record when
// they came.
func knownOf(s *State) []known {
	t := s.By
	switch t.Kind {
	case compiled.FixedWindow:
		return []known{{fixedWindow{}.instant(t, s), s.A}}
	case compiled.SlidingCounter:
		return slidingCounter{}.known(t, s)
	case compiled.SlidingLog, compiled.SlidingHistogram:
		return slidingLog{}.known(t, s)
	default:
		return nil
	}
}

// Pick takes over the states that a store keeps of a key under the name of it.Term: the
// state of Term's form becomes State, the rest become Others. Each has By set.
func (it *Item) Pick(states []State) {
	it.State, it.Others = State{}, it.Others[:0]
	for i := range states {
		if s := &states[i]; s.By.Form == it.Term.Form {
			it.State = *s
		} else {
			it.Others = append(it.Others, *s)
		}
	}
	if len(it.Others) > 1 { // do not depend on the store's order
		slices.SortFunc(it.Others, func(a, b State) int { return byForm(a.By, b.By) })
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// byForm orders limits of different forms.
func byForm(a, b *sluice.Term) int {
	return cmp.Or(
		cmp.Compare(a.Micros, b.Micros), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Behind, b.Behind), cmp.Compare(a.Sub, b.Sub),
		cmp.Compare(a.Refill, b.Refill), compareBool(a.OnFirst, b.OnFirst), cmp.Compare(a.Calendar, b.Calendar),
		cmp.Compare(a.WarmUp, b.WarmUp), cmp.Compare(a.Rate.Num, b.Rate.Num), cmp.Compare(a.Rate.Den, b.Rate.Den),
		cmp.Compare(a.WeekStart, b.WeekStart), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.From.String(), b.From.String()),
	)
}

// Keep appends to list the states that the store must keep after a decision, each with By
// set.
func (it *Item) Keep(list []State) []State {
	if s := it.State; !s.Zero() {
		if s.fill = 0; s.By == nil {
			s.By = it.Term
		}
		list = append(list, s)
	}
	for _, s := range it.Others {
		if !s.Zero() {
			list = append(list, s)
		}
	}
	return list
}
