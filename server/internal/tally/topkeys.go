// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/sluicegate/sluice/server/internal/outcome"
)

// maxKeyBytes is the longest part kept of a key. Longer keys with the same beginning count as
// one.
const maxKeyBytes = 256

// mark holds the values of a counter when the last two half hours began.
type mark struct{ before, last uint64 }

// turn begins another half hour.
func (m *mark) turn(now uint64) { m.before, m.last = m.last, now }

// topKeys counts keys in a fixed number of places. It contains every key counted more often
// than the total divided by the places. It is the Space-Saving list of Metwally, Agrawal and
// El Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005. It
// is safe for concurrent use.
type topKeys struct {
	mu     sync.Mutex
	places int
	total  uint64
	mark   mark // of total
	of     map[string]*place
	heap   least
}

type place struct {
	key         string
	count, over uint64 // over: how much of count may belong to other keys
	mark        mark   // of count
	index       int    // in the heap
}

// newTopKeys returns a list of the given number of places, at least 1.
func newTopKeys(places int) *topKeys {
	places = max(places, 1)
	return &topKeys{places: places, of: make(map[string]*place)}
}

// add counts key in time logarithmic in the places.
func (l *topKeys) add(key string) {
	if len(key) > maxKeyBytes {
		key = key[:maxKeyBytes]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if p, ok := l.of[key]; ok {
		p.count++
		l.heap.grown(p)
		return
	}
	key = strings.Clone(key) // the key may be a part of a whole request
	if len(l.heap) < l.places {
		p := &place{key: key, count: 1, index: len(l.heap)} // no other count is smaller
		l.of[key] = p
		l.heap = append(l.heap, p)
		return
	}
	// The key with the smallest count is replaced, and its count kept: it bounds the earlier
	// counts of the new key.
	p := l.heap[0]
	delete(l.of, p.key)
	p.key, p.over, p.mark = key, p.count, mark{p.count, p.count}
	p.count++
	l.of[key] = p
	l.heap.grown(p)
}

// top returns the n keys with the largest counts, largest first, without the names of rule and
// level.
func (l *topKeys) top(n int) outcome.Denied {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]outcome.KeyCount, 0, len(l.heap))
	for _, p := range l.heap {
		counts = append(counts, outcome.KeyCount{Key: p.key, Least: p.count - p.over, Most: p.count, Recent: p.count - p.mark.before})
	}
	slices.SortFunc(counts, func(a, b outcome.KeyCount) int {
		return cmp.Or(cmp.Compare(b.Most, a.Most), cmp.Compare(b.Least, a.Least), cmp.Compare(a.Key, b.Key))
	})
	d := outcome.Denied{Total: l.total, Recent: l.total - l.mark.before}
	n = min(max(n, 0), len(counts))
	switch {
	case n < len(counts):
		d.Rest = counts[n].Most
	case n == l.places:
		d.Rest = l.heap[0].count // another key may have been replaced
	}
	d.Keys = counts[:n]
	return d
}

// turn begins another half hour.
func (l *topKeys) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark.turn(l.total)
	for _, p := range l.heap {
		p.mark.turn(p.count)
	}
}

// recent returns the recent counts of keys, largest first, and the recent total.
func (l *topKeys) recent() (counts []uint64, total uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.heap {
		if n := p.count - p.mark.before; n > 0 {
			counts = append(counts, n)
		}
	}
	slices.SortFunc(counts, func(a, b uint64) int { return cmp.Compare(b, a) })
	return counts, l.total - l.mark.before
}

// least is a heap of places with the smallest count on top.
type least []*place

// grown restores the heap after p's count has grown.
func (all least) grown(p *place) {
	i := p.index
	for {
		child := 2*i + 1
		if child+1 < len(all) && all[child+1].count < all[child].count {
			child++
		}
		if child >= len(all) || p.count <= all[child].count {
			break
		}
		all[i] = all[child]
		all[i].index = i
		i = child
	}
	all[i], p.index = p, i
}
