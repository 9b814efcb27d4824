// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

const (
	maxSeries  = 4096 // scopes and names whose limits are remembered
	maxChanges = 16   // limits of one series
)

// registry remembers under which limits states have been written, so that a
// state outlives a change of its limit: where the identity under the current
// limit is missing, those under its predecessors are looked up. A key that is
// found never asks it.
//
// Reading takes no lock. What is read never changes; writers replace it.
type registry struct {
	mu     sync.Mutex
	series atomic.Pointer[map[uint64][]*record]
	// generation is odd while some series has more than one limit. Then every
	// take notes which of them it used, so that one of which no state can be
	// alive any more is dropped. Each time that one is dropped it is another.
	generation atomic.Uint64
}

// changing reports whether some series has more than one limit.
func (r *registry) changing() bool { return r.generation.Load()&1 == 1 }

// record is a limit under which states may exist.
type record struct {
	term  *sluice.Term
	scope string
	form  algo.Form
	mask  uint64
	life  int64        // µs that a state can live at most
	used  atomic.Int64 // instant of the last take that could have written one
}

func newRecord(scope string, t *sluice.Term, now int64) *record {
	r := &record{term: t, scope: scope, form: algo.Shape(t), mask: termMask(t.ID), life: lifetime(t)}
	r.used.Store(now)
	return r
}

// lifetime returns how long a state of t can live behind its last take: until
// all debt is gone, an initial state is forgotten and a reservation is over,
// rounded up generously.
func lifetime(t *sluice.Term) int64 {
	windows := int64(3)
	if t.Refill == sluice.Interval {
		windows += (t.Burst+t.Debt)/t.Quota + 1
	}
	return windows*t.Micros + t.Most.Micros + 2*sluice.MaxWait.Microseconds()
}

// touch is called by the hit path while limits change: it says that term's
// states are in use.
func (r *registry) touch(t *sluice.Term, now int64) {
	for _, rec := range (*r.series.Load())[t.Series] {
		if rec.term.ID == t.ID {
			rec.used.Store(max(rec.used.Load(), now))
		}
	}
}

// enter makes sure that t, a limit of scope, is known before a state is written
// under it, and returns all limits of its series.
func (r *registry) enter(scope string, t *sluice.Term, now int64) []*record {
	if m := r.series.Load(); m != nil {
		recs := (*m)[t.Series]
		if len(recs) == 1 && recs[0].term.ID == t.ID {
			return recs
		}
		if known(recs, t, now) {
			return recs
		}
	}
	return r.add(scope, t, now)
}

// known reports whether t is among recs and none of these has had its time.
func known(recs []*record, t *sluice.Term, now int64) bool {
	found, over := false, false
	for _, rec := range recs {
		if rec.term.ID == t.ID {
			rec.used.Store(max(rec.used.Load(), now))
			found = true
		} else if now-rec.used.Load() > rec.life {
			over = true
		}
	}
	return found && !over
}

func (r *registry) add(scope string, t *sluice.Term, now int64) []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var old map[uint64][]*record
	if m := r.series.Load(); m != nil {
		old = *m
	}
	var recs []*record
	self := (*record)(nil)
	for _, rec := range old[t.Series] {
		switch {
		case rec.term.ID == t.ID:
			self = rec
		case len(old[t.Series]) == 1:
			// Until now nobody noted its use: it may have been a moment ago.
			rec.used.Store(max(rec.used.Load(), now))
			recs = append(recs, rec)
		case now-rec.used.Load() <= rec.life:
			recs = append(recs, rec)
		}
	}
	if self == nil {
		self = newRecord(scope, t, now)
	}
	recs = append(recs, self)
	if len(recs) > maxChanges {
		oldest := slices.MinFunc(recs[:len(recs)-1], byUse)
		recs = slices.DeleteFunc(recs, func(rec *record) bool { return rec == oldest })
	}
	fresh := make(map[uint64][]*record, len(old)+1)
	maps.Copy(fresh, old)
	fresh[t.Series] = recs
	forgotten := len(fresh) > maxSeries
	if forgotten {
		forgetSeries(fresh, t.Series)
	}
	r.publish(fresh, forgotten)
	return recs
}

// publish makes m what is known. A take that asks for the generation first
// either sees that limits change or came before that.
func (r *registry) publish(m map[uint64][]*record, forgotten bool) {
	changing := false
	for _, recs := range m {
		changing = changing || len(recs) > 1
	}
	g := r.generation.Load()
	switch {
	case changing && g&1 == 0:
		r.generation.Store(g + 1)
		r.series.Store(&m)
	case !changing && g&1 == 1:
		r.series.Store(&m)
		r.generation.Store(g + 1)
	case forgotten && g&1 == 0:
		r.generation.Store(g + 2)
		r.series.Store(&m)
	default:
		r.series.Store(&m)
	}
}

func byUse(a, b *record) int { return cmp.Compare(a.used.Load(), b.used.Load()) }

// forgetSeries drops the half of m whose last new key is longest ago, but not
// keep.
func forgetSeries(m map[uint64][]*record, keep uint64) {
	type use struct {
		series uint64
		at     int64
	}
	uses := make([]use, 0, len(m))
	for series, recs := range m {
		if series != keep {
			uses = append(uses, use{series, slices.MaxFunc(recs, byUse).used.Load()})
		}
	}
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	for _, u := range uses[:len(uses)/2] {
		delete(m, u.series)
	}
}

// records returns all that is known, for a snapshot.
func (r *registry) records() []*record {
	var all []*record
	if m := r.series.Load(); m != nil {
		for _, recs := range *m {
			all = append(all, recs...)
		}
	}
	return all
}

// replace makes recs all that is known.
func (r *registry) replace(recs []*record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[uint64][]*record)
	for _, rec := range recs {
		m[rec.term.Series] = append(m[rec.term.Series], rec)
	}
	r.publish(m, true)
}
