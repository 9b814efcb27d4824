// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// registry knows the limits under which states have been written. A slot names
// the one that wrote it by its index; words name none, and belong to the first
// limit of their series that could have some.
//
// A version is looked up by the ID of its limit, whatever others there are, so
// that the hundred-thousandth costs what the first does. One that no slot names
// is forgotten when the next ones come.
type registry struct {
	versions sync.Map // of the ID of a term to *version
	series   sync.Map // of the Series of a term to *series

	// generation changes when a series is forgotten, or has a second limit: a word from
	// before that does not come to life again.
	generation atomic.Uint64

	byIndex atomic.Pointer[[]*version] // the first is nil: no version

	mu    sync.Mutex
	free  []uint32 // indexes of versions that were forgotten
	known int      // versions
	kinds int      // series
	sweep int      // known at which unused versions are looked for
}

const (
	maxVersions = 1<<byBits - 1
	minSweep    = 1024
	// manySeries is how many series are kept though no slot names a version of
	// theirs: words do not show whose they are.
	manySeries = 1 << 16
)

// version is one limit with all its parameters.
type version struct {
	term   *sluice.Term
	scope  string
	series *series
	index  uint32
	refs   atomic.Int64 // slots that name it; below 0 once it is forgotten
	used   atomic.Int64 // about when it was last looked up
}

// series is what limits of one scope and name have in common.
type series struct {
	start atomic.Int64            // instant at which the first was met
	words atomic.Pointer[version] // whose plain states may be words
	count atomic.Int64            // versions that are known
	// owing is until when there may be receipts of versions that are forgotten.
	owing atomic.Int64
	// sizes has a bit for each size of slot that its states have had.
	sizes atomic.Uint32
}

// alone reports whether no other limit of the series can have used a key.
func (s *series) alone(now int64) bool { return s.count.Load() <= 1 && now >= s.owing.Load() }

// has notes that a state of the series has a slot of a size.
func (s *series) has(size stateSize) {
	if bit := uint32(1) << size; s.sizes.Load()&bit == 0 {
		s.sizes.Or(bit)
	}
}

// lifetime returns how long a state of t can live behind its last take: until
// all debt is gone, a reservation is over and the key is cold, rounded up generously.
func lifetime(t *sluice.Term) int64 {
	windows := int64(3)
	if t.Refill != sluice.Continuous {
		windows += (t.Burst+t.Debt)/t.Quota + 1
	}
	return windows*t.Micros + t.Most.Micros + 2*t.WarmUp.Microseconds() + 2*sluice.MaxWait.Microseconds()
}

// at returns the version of an index, nil of 0.
func (r *registry) at(index uint32) *version {
	if index == 0 {
		return nil
	}
	return (*r.byIndex.Load())[index]
}

// enter returns the version of t, a limit of scope, which is known from now on.
func (r *registry) enter(scope string, t *sluice.Term, now int64) *version {
	known, ok := r.versions.Load(t.ID)
	if !ok {
		return r.add(scope, t, now)
	}
	v := known.(*version)
	if used := v.used.Load(); now-used > 1e6 || now < used {
		v.used.Store(now)
	}
	return v
}

// meet makes the limits of a request known before any of them is decided, where
// plans of one scope may have two of one name: whichever comes first, each balance
// is one that the other may have used.
func (r *registry) meet(req *sluice.Request, now int64) {
	if !plansDiffer(req) {
		return
	}
	for i := range req.Charges() {
		p := req.Nth(i).Plan
		for j := range p.Len() {
			r.enter(p.Scope(), p.Term(j), now)
		}
	}
}

// plansDiffer reports whether two keys of a request are under different plans of
// one scope.
func plansDiffer(req *sluice.Request) bool {
	for i := range req.More {
		p := req.More[i].Plan
		for j := range i + 1 {
			if q := req.Nth(j).Plan; p != q && p.ScopeID() == q.ScopeID() {
				return true
			}
		}
	}
	return false
}

// startOf returns when the rule started, which a clock that steps back moves.
func (s *series) startOf(now int64) int64 {
	now = max(now, 1) // 0 would be long ago
	start := s.start.Load()
	if now < start {
		s.start.CompareAndSwap(start, now)
		return now
	}
	return start
}

func (r *registry) add(scope string, t *sluice.Term, now int64) *version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.versions.Load(t.ID); ok {
		return known.(*version)
	}
	if r.known >= max(r.sweep, minSweep) {
		r.forget(now)
		r.sweep = 2 * r.known
	}
	return r.insert(scope, t, now)
}

// insert makes t known. The caller holds mu.
func (r *registry) insert(scope string, t *sluice.Term, now int64) *version {
	var ser *series
	if known, ok := r.series.Load(t.Series); ok {
		ser = known.(*series)
	} else {
		ser = &series{}
		ser.start.Store(max(now, 1))
		r.series.Store(t.Series, ser)
		r.kinds++
	}
	v := &version{term: t, scope: scope, series: ser, index: r.index()}
	v.used.Store(now)
	if v.index > 0 {
		(*r.byIndex.Load())[v.index] = v
	}
	if ser.words.Load() == nil && sizeOfForm(t) == sizeWord {
		ser.words.Store(v)
	}
	if ser.count.Add(1) == 2 {
		r.generation.Add(1) // from now on a balance begins with what others can have used of it
	}
	r.known++
	r.versions.Store(t.ID, v)
	return v
}

// index returns an index that no version has. If there are no more it is 0,
// which says nothing: a state without a version is dropped when it is read.
func (r *registry) index() uint32 {
	if n := len(r.free); n > 0 {
		index := r.free[n-1]
		r.free = r.free[:n-1]
		return index
	}
	all := []*version{nil}
	if p := r.byIndex.Load(); p != nil {
		all = *p
	}
	if len(all) > maxVersions {
		return 0
	}
	all = append(all, nil)
	r.byIndex.Store(&all)
	return uint32(len(all) - 1)
}

// forget drops versions that no slot names. The one that may have words stays, and the last
// of a series, which knows its start, unless there are very many series and it was not
// looked up for longer than a state lives. The caller holds mu.
func (r *registry) forget(now int64) {
	r.versions.Range(func(id, known any) bool {
		v := known.(*version)
		idle := now - v.used.Load()
		if (v.series.words.Load() == v || v.series.count.Load() == 1) && (r.kinds < manySeries || idle <= lifetime(v.term) || v.series.count.Load() > 1) {
			return true
		}
		if idle < 2e6 || !v.refs.CompareAndSwap(0, -1) { // used is noted once a second
			return true
		}
		r.versions.Delete(id)
		r.known--
		if v.index > 0 {
			r.free = append(r.free, v.index)
		}
		v.series.owing.Store(max(v.series.owing.Load(), now+lifetime(v.term)))
		if v.series.count.Add(-1) == 0 {
			r.series.Delete(v.term.Series)
			r.kinds--
			r.generation.Add(1)
		}
		return true
	})
}

// name counts a slot that names v from now on. It returns v or, where that has
// been forgotten, what has come in its place.
func (r *registry) name(v *version, now int64) *version {
	for {
		refs := v.refs.Load()
		if refs >= 0 && v.refs.CompareAndSwap(refs, refs+1) {
			return v
		}
		if refs < 0 {
			v = r.enter(v.scope, v.term, now)
		}
	}
}

// unname counts a slot that names the version of an index no more.
func (r *registry) unname(index uint32) {
	if v := r.at(index); v != nil {
		v.refs.Add(-1)
	}
}

// all returns all versions that are known, for a snapshot.
func (r *registry) all() []*version {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*version
	r.versions.Range(func(_, known any) bool {
		list = append(list, known.(*version))
		return true
	})
	return list
}

// clear forgets everything.
func (r *registry) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions.Clear()
	r.series.Clear()
	r.byIndex.Store(nil)
	r.free, r.known, r.kinds, r.sweep = nil, 0, 0, 0
}
