// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// registry holds the limits under which states have been written. A slot names its
// limit by an index. Words name none: they belong to the first limit of their series
// whose states may be words.
//
// A version is looked up by the ID of its limit, at the same cost with one version
// and with 100,000. A version that no slot names is forgotten when others are added.
type registry struct {
	versions sync.Map // of the ID of a term to *version
	series   sync.Map // of the Series of a term to *series

	// generation changes when a series is forgotten or gets a second limit. Idle words
	// from before the change are not used again.
	generation atomic.Uint64

	byIndex atomic.Pointer[[]*version] // index 0 is nil: no version

	held held

	mu    sync.Mutex
	free  []uint32 // indexes of versions that were forgotten
	known int      // versions
	kinds int      // series
	sweep int      // value of known at which unused versions are dropped
}

const (
	maxVersions = 1<<byBits - 1
	minSweep    = 1024
	// manySeries is the number of series that are kept though no slot names a version
	// of them: they may have words.
	manySeries = 1 << 16
)

// version is one limit with all its parameters.
type version struct {
	term   *sluice.Term
	scope  string
	series *series
	index  uint32
	refs   atomic.Int64 // slots that name it; negative once it is forgotten
	used   atomic.Int64 // instant of the last lookup, about
}

// series is what limits of one scope and name have in common.
type series struct {
	start atomic.Int64            // instant of the first request
	words atomic.Pointer[version] // the version whose plain states may be words
	count atomic.Int64            // versions in the registry
	// owing is the instant until which receipts of forgotten versions may exist.
	owing atomic.Int64
	// sizes has a bit for each size of slot that the states have had.
	sizes atomic.Uint32
}

// alone reports whether no other limit of the series can have used a key.
func (s *series) alone(now int64) bool { return s.count.Load() <= 1 && now >= s.owing.Load() }

// has records that a state of the series has a slot of a size.
func (s *series) has(size stateSize) {
	if bit := uint32(1) << size; s.sizes.Load()&bit == 0 {
		s.sizes.Or(bit)
	}
}

// lifetime returns an upper bound of the time that a state of t lives after its last
// take: until its debt is paid, its reservation is over and its key is cold.
func lifetime(t *sluice.Term) int64 {
	windows := int64(3)
	if t.Refill != sluice.Continuous {
		windows += (t.Burst+t.Debt)/t.Quota + 1
	}
	return windows*t.Micros + t.Most.Micros + 2*t.WarmUp.Microseconds() + 2*sluice.MaxWait.Microseconds()
}

// at returns the version of an index, nil for 0.
func (r *registry) at(index uint32) *version {
	if index == 0 {
		return nil
	}
	return (*r.byIndex.Load())[index]
}

// enter returns the version of t, a limit of scope, and adds it if it is missing.
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

// meet registers the limits of a request before any of them is decided, if its plans
// of one scope may have two limits of one name. Either limit may then have used a
// balance, whatever their order is.
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
			if q := req.Nth(j).Plan; p != q && p.ScopeID == q.ScopeID {
				return true
			}
		}
	}
	return false
}

// startOf returns the start of the rule. If the clock steps back before the start, the start
// moves to the clock's instant.
func (s *series) startOf(now int64) int64 {
	now = max(now, 1) // 0 would be a start long ago
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

// insert adds t. The caller holds mu.
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
		r.generation.Add(1) // another limit may use an idle balance from now on
	}
	r.known++
	r.versions.Store(t.ID, v)
	return v
}

// index returns an index that no version has, or 0 if none is left. A state without a
// version is dropped when it is read.
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

// forget drops versions that no slot names. It keeps the version that may have words and
// the last version of a series, which holds the start, unless there are very many series
// and it was not looked up for longer than a state lives. The caller holds mu.
func (r *registry) forget(now int64) {
	r.versions.Range(func(id, known any) bool {
		v := known.(*version)
		idle := now - v.used.Load()
		if (v.series.words.Load() == v || v.series.count.Load() == 1) && (r.kinds < manySeries || idle <= lifetime(v.term) || v.series.count.Load() > 1) {
			return true
		}
		if idle < 2e6 || !v.refs.CompareAndSwap(0, -1) { // used is updated once a second
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

// name counts a slot that names v. It returns v or, if v has been forgotten, its
// replacement.
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

// unname uncounts a slot that named the version of an index.
func (r *registry) unname(index uint32) {
	if v := r.at(index); v != nil {
		v.refs.Add(-1)
	}
}

// all returns all versions, for a snapshot.
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
