// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// modelRule is the state of one scope and name of a limit in the model.
type modelRule struct {
	start  int64
	limits map[uint64]bool
}

// canonical writes a value so that equal values have equal text.
func (d *differential) canonical(it *item, raw string, now int64) string {
	list, err := d.store.parseValue(it, raw)
	if err != nil {
		return err.Error()
	}
	return canonical(list, now)
}

func canonical(list []algo.State, now int64) string {
	var all []string
	for i := range list {
		s := &list[i]
		if matters(s.By, s) <= now {
			continue // it may be deleted when it is idle
		}
		var words []uint64
		for i := range s.Len {
			words = append(words, s.Ring[(s.Head+i)%len(s.Ring)])
		}
		text := fmt.Sprintf("%v: idle %d a %d b %d reserved %t since %d last %d ring %x",
			s.By.Limit, s.Idle, s.A, s.B, s.Reserved, s.Since, s.Last, words)
		if s.Idle <= now {
			text = fmt.Sprintf("%v: since %d", s.By.Limit, s.Since)
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// decide is the model: it has algo decide over the states that algo left before.
func (s *subject) decide(j *job, now int64) sluice.Decision {
	items := make([]algo.Item, len(s.items))
	for i := range items {
		t := s.items[i].term
		charge := j.req.Nth(s.items[i].charge)
		items[i] = algo.Item{Term: t, Cost: charge.Cost, Counted: charge.Counted, Void: s.voids[s.items[i].charge]}
		s.load(i, &items[i], now)
	}
	d, _ := algo.DecidePart(j.req, items, now, j.op == opDeny, j.least)
	for i := range items {
		if v := &s.voids[s.items[i].charge]; j.op != sluice.OpPeek {
			*v = max(*v, items[i].Void)
		}
		if items[i].Written && j.op != sluice.OpPeek {
			s.model[i], _ = kept(&items[i], now)
		}
	}
	return d
}

// meet records the limits of a call.
func (s *subject) meet(now int64) {
	for i := range s.items {
		t := s.items[i].term
		r := s.rules[t.Series]
		if r == nil {
			r = &modelRule{start: max(now, 1), limits: make(map[uint64]bool)}
			s.rules[t.Series] = r
		}
		if r.limits[t.ID] = true; withholds(t) {
			r.start = min(r.start, max(now, 1))
		}
	}
	s.metOthers = make([]bool, len(s.items))
	for i := range s.items {
		s.metOthers[i] = s.items[i].term.Credit > 0 || len(s.rules[s.items[i].term.Series].limits) > 1
	}
}

// load gives an item the model's state of the i-th key.
func (s *subject) load(i int, it *algo.Item, now int64) {
	r := s.rules[it.Term.Series]
	it.Start = r.start
	var live []algo.State
	for k := range s.model[i] {
		if st := &s.model[i][k]; st.Idle > now || st.By.Form == it.Term.Form {
			live = append(live, copyOf(st))
		}
	}
	it.Pick(live)
	if st := &it.State; st.Idle <= now {
		*st = algo.State{Idle: st.Idle, Since: st.Since}
		if it.Term.Burst > 0 && s.metOthers[i] {
			*st = algo.State{Since: now}
		}
	}
}
