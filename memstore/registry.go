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
	stripes    = 256 // of the registry: adding a series copies one
	maxSeries  = 256 // scopes and names whose limits a stripe remembers
	maxChanges = 16  // limits of one series
)

// registry remembers under which limits states have been written, so that a
// state outlives a change of its limit: where the identity under the current
// limit is missing, those under its predecessors are looked up. A key that is
// found never asks it.
//
// Reading takes no lock. What is read never changes; writers replace it, a
// stripe at a time, so that a policy of 10,000 limits is not slow to start.
type registry struct {
	mu       sync.Mutex
	stripes  [stripes]atomic.Pointer[map[uint64][]*record]
	replaced int // series that have more than one limit; under mu
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

// stripe returns where a series is remembered. Series are hashes.
func (r *registry) stripe(series uint64) *atomic.Pointer[map[uint64][]*record] {
	return &r.stripes[series%stripes]
}

// of returns the limits of a series.
func (r *registry) of(series uint64) []*record {
	if m := r.stripe(series).Load(); m != nil {
		return (*m)[series]
	}
	return nil
}

// touch is called by the hit path while limits change: it says that term's
// states are in use.
func (r *registry) touch(t *sluice.Term, now int64) {
	for _, rec := range r.of(t.Series) {
		if rec.term.ID == t.ID {
			rec.used.Store(max(rec.used.Load(), now))
		}
	}
}

// enter makes sure that t, a limit of scope, is known before a state is written
// under it, and returns all limits of its series.
func (r *registry) enter(scope string, t *sluice.Term, now int64) []*record {
	recs := r.of(t.Series)
	if len(recs) == 1 && recs[0].term.ID == t.ID || known(recs, t, now) {
		return recs
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
	old := r.of(t.Series)
	var recs []*record
	self := (*record)(nil)
	for _, rec := range old {
		switch {
		case rec.term.ID == t.ID:
			self = rec
		case len(old) == 1:
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
	stripe := r.stripe(t.Series)
	fresh := make(map[uint64][]*record)
	if m := stripe.Load(); m != nil {
		maps.Copy(fresh, *m)
	}
	fresh[t.Series] = recs
	r.replaced += plural(recs) - plural(old)
	forgotten := len(fresh) > maxSeries
	if forgotten {
		r.replaced -= forgetSeries(fresh, t.Series)
	}
	r.publish(forgotten, func() { stripe.Store(&fresh) })
	return recs
}

// plural returns 1 if a series has more than one limit, else 0.
func plural(recs []*record) int {
	if len(recs) > 1 {
		return 1
	}
	return 0
}

// publish has store make known what changed. A take that asks for the generation
// first either sees that limits change or came before that.
func (r *registry) publish(forgotten bool, store func()) {
	g := r.generation.Load()
	switch {
	case r.replaced > 0 && g&1 == 0:
		r.generation.Store(g + 1)
		store()
	case r.replaced == 0 && g&1 == 1:
		store()
		r.generation.Store(g + 1)
	case forgotten && g&1 == 0:
		r.generation.Store(g + 2)
		store()
	default:
		store()
	}
}

func byUse(a, b *record) int { return cmp.Compare(a.used.Load(), b.used.Load()) }

// forgetSeries drops the half of m whose last new key is longest ago, but not
// keep. It returns how many of them had more than one limit.
func forgetSeries(m map[uint64][]*record, keep uint64) (replaced int) {
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
		replaced += plural(m[u.series])
		delete(m, u.series)
	}
	return replaced
}

// records returns all that is known, for a snapshot.
func (r *registry) records() []*record {
	var all []*record
	for i := range r.stripes {
		if m := r.stripes[i].Load(); m != nil {
			for _, recs := range *m {
				all = append(all, recs...)
			}
		}
	}
	return all
}

// replace makes recs all that is known.
func (r *registry) replace(recs []*record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all [stripes]map[uint64][]*record
	for _, rec := range recs {
		m := &all[rec.term.Series%stripes]
		if *m == nil {
			*m = make(map[uint64][]*record)
		}
		(*m)[rec.term.Series] = append((*m)[rec.term.Series], rec)
	}
	r.replaced = 0
	for _, m := range all {
		for _, recs := range m {
			r.replaced += plural(recs)
		}
	}
	r.publish(true, func() {
		for i := range all {
			r.stripes[i].Store(&all[i])
		}
	})
}
