// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	window   = 32      // slots in which a key may lie, from its home on
	stripes  = 256     // locks for keys that have no slot yet
	maxSlots = 1 << 30 // 16 GiB

	// claimed is the word of a slot that is changing its key. It is below any
	// instant, so that a take that read an older word cannot write over it.
	claimed = math.MinInt64
)

// slot is one key: four to a cache line.
type slot struct {
	id   atomic.Uint64 // the key's hash; 0 was never used
	full atomic.Int64  // ns since base at which the key is as if new
}

// stripe is a lock with a cache line of its own.
type stripe struct {
	sync.Mutex
	_ [56]byte
}

// Table is one limit for each of many keys, in a hash table of a fixed size
// without pointers. A key is its seeded 64-bit hash: two keys share a budget
// with a chance of n²/2⁶⁵ among n keys. It is safe for concurrent use and
// never allocates after [NewTable].
//
// A key whose word lies in the past is as if new, so its slot is free
// and no sweep is needed. If none of the slots in which a new key may lie is
// free, the key nearest to that is forgotten, and the new one starts no earlier
// than that would have been free.
type Table struct {
	rate
	base  time.Time
	seed  maphash.Seed
	shift int
	mask  uint64
	slots []slot
	locks [stripes]stripe
}

// NewTable returns a Table with at least two slots of 16 bytes for each of
// keys, for the limit that [NewWord] describes.
func NewTable(keys int, quota int64, per time.Duration, burst int64) (*Table, error) {
	r, err := newRate(quota, per, burst)
	if err != nil {
		return nil, err
	}
	if keys < 1 || keys > maxSlots/2 {
		return nil, fmt.Errorf("floor: %d keys must be 1 to %d", keys, maxSlots/2)
	}
	logSlots := max(bits.Len(uint(2*keys-1)), 6)
	return &Table{
		rate:  r,
		base:  time.Now(),
		seed:  maphash.MakeSeed(),
		shift: 64 - logSlots,
		mask:  1<<logSlots - 1,
		slots: make([]slot, 1<<logSlots),
	}, nil
}

// Take spends cost units of key if they fit and reports whether they did. The
// cost must not be negative nor, in time, out of range.
func (t *Table) Take(key string, cost int64) bool {
	id := maphash.String(t.seed, key)
	if id == 0 {
		id = 1
	}
	now := int64(time.Since(t.base))
	at := id >> t.shift
	for range window {
		s := &t.slots[at&t.mask]
		// The word is read before the key it belongs to. A writer that gives the slot
		// to another key changes the word first, and words of one slot only
		// grow, so the swap below succeeds only on a word of this key.
		full := s.full.Load()
		switch s.id.Load() {
		case id:
			next := max(full, now) + t.cell*cost
			if full == claimed {
				return t.insert(id, now, cost)
			}
			if next-now > t.reach {
				if s.full.Load() == full { // or the word was another key's
					return false
				}
			} else if s.full.CompareAndSwap(full, next) {
				return true
			}
			return t.retry(s, id, now, cost)
		case 0:
			return t.insert(id, now, cost)
		}
		at++
	}
	return t.insert(id, now, cost)
}

// retry is Take once somebody else has changed the key's slot meanwhile.
func (t *Table) retry(s *slot, id uint64, now, cost int64) bool {
	for {
		full := s.full.Load()
		if full == claimed || s.id.Load() != id {
			return t.insert(id, now, cost)
		}
		next := max(full, now) + t.cell*cost
		if next-now > t.reach {
			if s.full.Load() == full {
				return false
			}
		} else if s.full.CompareAndSwap(full, next) {
			return true
		}
	}
}

// insert is Take for a key that seemed to have no slot.
func (t *Table) insert(id uint64, now, cost int64) bool {
	home := id >> t.shift
	lock := &t.locks[home%stripes] // one key, one lock: it cannot get two slots
	lock.Lock()
	defer lock.Unlock()
	for {
		var free *slot
		least := int64(math.MaxInt64)
		for i := range uint64(window) {
			s := &t.slots[(home+i)&t.mask]
			full := s.full.Load()
			found := s.id.Load()
			if full == claimed {
				continue // by a neighbour with another lock
			}
			if found == id {
				next := max(full, now) + t.cell*cost
				if next-now > t.reach {
					if s.full.Load() == full {
						return false
					}
				} else if s.full.CompareAndSwap(full, next) {
					return true
				}
				free = nil
				break // and look again
			}
			if least > now && full < least { // the first free one, or else the nearest to it
				free, least = s, full
			}
			if found == 0 {
				break
			}
		}
		if free == nil {
			continue
		}
		next := now + t.cell*cost
		if next-now > t.reach {
			return false
		}
		if free.full.CompareAndSwap(least, claimed) {
			free.id.Store(id)
			free.full.Store(max(next, least+1)) // a slot's words only grow
			return true
		}
	}
}
