// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package instants

import (
	"container/list"
	"slices"
	"time"
)

// line holds the requests with the same charges that wait. Its n-th request waits for its n-th
// instant, and there are at least as many instants as requests.
type line[K comparable, R any] struct {
	id       uint64
	charges  []Charge[K]
	instants []Instant[R] // in the order of Due
	waiters  list.List    // of *Waiter[K, R]
	stop     func() bool  // ends the timer of the first instant
	armed    time.Time    // the instant of the timer
}

// free returns the number of instants that no request waits for: they are the last ones.
func (l *line[K, R]) free() int { return len(l.instants) - l.waiters.Len() }

// insert inserts an instant in order, and returns the number of later ones: few, as a later
// request usually reserves a later instant.
func (l *line[K, R]) insert(at Instant[R]) (behind int) {
	i := len(l.instants)
	for i > 0 && l.instants[i-1].Due.After(at.Due) {
		i--
	}
	l.instants = slices.Insert(l.instants, i, at)
	return len(l.instants) - 1 - i
}

func (l *line[K, R]) shift() Instant[R] {
	at := l.instants[0]
	l.instants[0] = Instant[R]{} // to drop its receipt
	l.instants = l.instants[1:]
	return at
}

func (l *line[K, R]) pop() Instant[R] {
	n := len(l.instants) - 1
	at := l.instants[n]
	l.instants = slices.Delete(l.instants, n, n+1)
	return at
}

// add adds a request ahead of that many others.
func (l *line[K, R]) add(w *Waiter[K, R], ahead int) {
	w.element = l.waiters.PushBack(w)
	for ; ahead > 0; ahead-- {
		l.waiters.MoveBefore(w.element, w.element.Prev())
	}
}

// Waiter is a request that waits for an instant.
type Waiter[K comparable, R any] struct {
	registry *Registry[K, R]
	line     *line[K, R]
	element  *list.Element // of line.waiters
	come     chan struct{}
	at       Instant[R]
}

// Come returns a channel that is closed when the request's instant has come.
func (w *Waiter[K, R]) Come() <-chan struct{} { return w.come }

// Instant returns the request's instant, which must have come.
func (w *Waiter[K, R]) Instant() Instant[R] { return w.at }

// Leave ends the request's wait, and the requests behind it move up. ok is false if its
// instant has come, which the caller must give back itself. If that leaves too many instants
// free, back holds the receipts to give back now. Call Leave once.
func (w *Waiter[K, R]) Leave() (back []R, ok bool) {
	r, l := w.registry, w.line
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.come:
		return nil, false
	default:
	}
	l.waiters.Remove(w.element)
	if r.free.Add(1) > r.most || r.lines[l.id] != l {
		return []R{r.drop(l)}, true
	}
	r.vacated(l)
	return nil, true
}
