// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package instants assigns instants that a store has reserved for requests to the requests that
// wait in this process.
//
// Requests with the same charges form a line. The first to wait in a line has its first
// instant, the second its second, and so on. A request that leaves takes no instant along: the
// requests behind it get earlier ones, and the last instant is free for the next request. A
// free instant is given back when it is due, or when a request with one of its keys and other
// charges comes.
package instants

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Charge is a charge for which an instant is reserved: Cost units of Key under the limits that
// Plan identifies.
type Charge[K comparable] struct {
	Key  K
	Plan uint64
	Cost int64
}

// Instant is the time at which a request may pass, and the receipt of its charges.
type Instant[R any] struct {
	Due     time.Time
	Receipt R
}

// Registry holds the lines of a process. It is safe for concurrent use; while it is locked it
// neither blocks nor calls functions of its user. It has no goroutine: each line has a timer.
type Registry[K comparable, R any] struct {
	giveBack func([]R)
	now      func() time.Time
	after    func(d time.Duration, f func()) (stop func() bool)
	seed     maphash.Seed
	free     atomic.Int64 // instants that no request waits for; changed under mu

	mu    sync.Mutex
	most  int64 // bounds free
	lines map[uint64]*line[K, R]
	// vacant holds the lines with free instants, by each of their keys.
	vacant map[K]map[*line[K, R]]struct{}
}

// New returns a Registry of at most most free instants, on a clock with its timers. A
// goroutine of its own calls giveBack with the free instants that are due.
func New[K comparable, R any](most int, now func() time.Time, after func(time.Duration, func()) (stop func() bool), giveBack func([]R)) *Registry[K, R] {
	return &Registry[K, R]{
		giveBack: giveBack, now: now, after: after, seed: maphash.MakeSeed(), most: int64(most),
		lines: make(map[uint64]*line[K, R]), vacant: make(map[K]map[*line[K, R]]struct{}),
	}
}

// Resize sets the largest number of free instants; it applies when the next one becomes free.
func (r *Registry[K, R]) Resize(most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = int64(most)
}

// Free returns the number of free instants.
func (r *Registry[K, R]) Free() int { return int(r.free.Load()) }

// Claim makes a request wait for a free instant of its line, if there is one no later than by.
// at is that instant; the request gets an earlier one if a request ahead leaves. Otherwise w
// is nil, and others holds the receipts of free instants under the same keys in other lines,
// the latest of each line first: these must be given back before the store is asked for an
// instant. For a request that may not wait by is zero, and others includes its own line.
func (r *Registry[K, R]) Claim(charges []Charge[K], by time.Time) (w *Waiter[K, R], at Instant[R], others []R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var own *line[K, R] // nil if the request may not wait
	if !by.IsZero() {
		own = r.find(charges)
	}
	if own != nil && own.free() > 0 && !own.instants[own.waiters.Len()].Due.After(by) {
		at = own.instants[own.waiters.Len()]
		w = r.wait(own, 0)
		if r.free.Add(-1); own.free() == 0 {
			r.occupied(own)
		}
		return w, at, nil
	}
	for _, c := range charges {
		for l := range r.vacant[c.Key] {
			for l != own && l.free() > 0 {
				others = append(others, r.drop(l))
			}
		}
	}
	return nil, Instant[R]{}, others
}

// Last removes and returns the last instant of the line with these charges, if no request waits
// there. It is for a caller that gives an instant back: a store can best use the one reserved
// last.
func (r *Registry[K, R]) Last(charges []Charge[K]) (receipt R, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.find(charges)
	if l == nil || l.waiters.Len() > 0 {
		return receipt, false
	}
	return r.drop(l), true
}

// Enter makes a request wait for the instant reserved for it, in the order of instants in its
// line, or for an earlier one that is free. A request without charges waits for its own
// instant.
func (r *Registry[K, R]) Enter(charges []Charge[K], at Instant[R]) *Waiter[K, R] {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.find(charges)
	if l == nil {
		l = r.open(charges)
	}
	free, behind := l.free(), l.insert(at)
	w := r.wait(l, max(behind-free, 0))
	r.arm(l)
	return w
}

func (r *Registry[K, R]) wait(l *line[K, R], ahead int) *Waiter[K, R] {
	w := &Waiter[K, R]{registry: r, line: l, come: make(chan struct{})}
	l.add(w, ahead)
	return w
}

// find returns the line with these charges, or nil.
func (r *Registry[K, R]) find(charges []Charge[K]) *line[K, R] {
	if l := r.lines[r.hash(charges)]; l != nil && slices.Equal(l.charges, charges) {
		return l
	}
	return nil
}

// open makes a line. A line without charges, or whose hash is taken, is not found again and has
// one waiter.
func (r *Registry[K, R]) open(charges []Charge[K]) *line[K, R] {
	l := &line[K, R]{charges: slices.Clone(charges), id: r.hash(charges)}
	if len(charges) > 0 && r.lines[l.id] == nil {
		r.lines[l.id] = l
	}
	return l
}

func (r *Registry[K, R]) hash(charges []Charge[K]) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, c := range charges {
		maphash.WriteComparable(&h, c)
	}
	return h.Sum64()
}

// arm sets the timer of a line to its first instant.
func (r *Registry[K, R]) arm(l *line[K, R]) {
	due := l.instants[0].Due
	if l.stop != nil {
		if l.armed.Equal(due) {
			return
		}
		l.stop()
	}
	l.armed = due
	l.stop = r.after(due.Sub(r.now()), func() { r.fire(l, due) })
}

// fire ends the wait of the requests whose instants are due, and gives the free instants back.
// The instant of the timer is due, whatever the clock says.
func (r *Registry[K, R]) fire(l *line[K, R], due time.Time) {
	if now := r.now(); now.After(due) {
		due = now
	}
	if back := r.due(l, due); len(back) > 0 {
		r.giveBack(back)
	}
}

func (r *Registry[K, R]) due(l *line[K, R], now time.Time) (back []R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.armed = time.Time{} // the timer has fired
	for len(l.instants) > 0 && !l.instants[0].Due.After(now) {
		at := l.shift()
		if first := l.waiters.Front(); first != nil {
			w := l.waiters.Remove(first).(*Waiter[K, R]) //nolint:forcetypeassert // no other type is stored
			w.at = at
			close(w.come)
			continue
		}
		r.free.Add(-1)
		back = append(back, at.Receipt)
	}
	r.tidy(l)
	return back
}

// drop removes the last instant of a line, which is free.
func (r *Registry[K, R]) drop(l *line[K, R]) R {
	r.free.Add(-1)
	at := l.pop()
	r.tidy(l)
	return at.Receipt
}

// tidy arms the timer of a line that has lost instants, and forgets an empty line.
func (r *Registry[K, R]) tidy(l *line[K, R]) {
	if l.free() == 0 {
		r.occupied(l)
	}
	if len(l.instants) > 0 {
		r.arm(l)
		return
	}
	l.stop()
	if r.lines[l.id] == l {
		delete(r.lines, l.id)
	}
}

// vacated records that a line has a free instant.
func (r *Registry[K, R]) vacated(l *line[K, R]) {
	for _, c := range l.charges {
		if r.vacant[c.Key] == nil {
			r.vacant[c.Key] = make(map[*line[K, R]]struct{})
		}
		r.vacant[c.Key][l] = struct{}{}
	}
}

// occupied records that a line has no free instant.
func (r *Registry[K, R]) occupied(l *line[K, R]) {
	for _, c := range l.charges {
		if delete(r.vacant[c.Key], l); len(r.vacant[c.Key]) == 0 {
			delete(r.vacant, c.Key)
		}
	}
}
