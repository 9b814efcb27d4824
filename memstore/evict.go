// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice/algo"
)

const (
	// group is how many states are looked at for one to evict.
	group = 16
	// purgeShare says how often a full shard looks for states that died: after
	// every cap/purgeShare evictions.
	purgeShare = 16
)

// makeRoom drops a state so that one of identity id, which would live until
// idle, has room. Now and then it drops all that are idle. If there are none it
// evicts, from the form with the most states, the one of a group that is idle
// soonest, if that is no later than the newcomer is. Otherwise it looks through
// the whole shard for such a one, and only if all owe for longer goes the one
// that is idle soonest of all.
func (sh *shard) makeRoom(id uint64, now, idle int64, keep pins) {
	if sh.purge--; sh.purge < 0 && now >= sh.soonest {
		sh.purge = sh.cap / purgeShare
		if sh.dropIdle(now) {
			return
		}
	}
	fullest := sh.fullest()
	from, slot, at := fullest, -1, int64(0)
	look := func(f algo.Form) {
		var i int
		var when int64
		if f == algo.FormWord {
			i, when = sh.words.lightest(id, idle, keep)
		} else {
			i, when = sh.tables[f].lightest(id, idle, keep)
		}
		if i >= 0 && (slot < 0 || when < at) {
			from, slot, at = f, i, when
		}
	}
	look(fullest)
	for f := range forms {
		if slot >= 0 && at <= idle {
			break
		}
		if f != fullest {
			look(f)
		}
	}
	if slot < 0 {
		return // all are this request's: it may exceed the cap by its own limits
	}
	if from == algo.FormWord {
		// It may have changed since it was looked at.
		at = sh.words.array.Load().idle(sh.words.remove(slot))
	} else {
		sh.remove(&sh.tables[from], slot)
	}
	if at <= now {
		sh.latest = max(sh.latest, now)
		return
	}
	sh.evicted++
	sh.forgiven = min(sh.forgiven+uint64(at-now), math.MaxInt64/1000)
}

// dropIdle drops all states that are idle at now and reports whether there were
// any.
func (sh *shard) dropIdle(now int64) bool {
	before := sh.used()
	soonest := int64(math.MaxInt64)
	dead, next := sh.words.dead(now)
	if soonest = min(soonest, next); dead > 0 {
		sh.rebuildWords(now)
	}
	for f := range sh.tables {
		dead, next := sh.tables[f].dead(now)
		if soonest = min(soonest, next); dead > 0 {
			sh.rebuild(&sh.tables[f], now)
		}
	}
	sh.soonest = soonest
	return sh.used() < before
}

// dead returns how many states are idle at now, and when the next one will be.
func (t *table) dead(now int64) (n int, next int64) {
	next = math.MaxInt64
	for i := range t.n {
		switch {
		case t.id(i) == 0:
		case t.idle(i) <= now:
			n++
		default:
			next = min(next, t.idle(i))
		}
	}
	return n, next
}

// dead is as that of table.
func (w *words) dead(now int64) (n int, next int64) {
	next = math.MaxInt64
	a := w.array.Load()
	for i := range w.slots() {
		switch word := atomic.LoadUint64(a.word(i)); {
		case word == 0:
		case a.idle(word) <= now:
			n++
		default:
			next = min(next, a.idle(word))
		}
	}
	return n, next
}

// fullest returns the form with the most states.
func (sh *shard) fullest() algo.Form {
	best, most := algo.FormWord, sh.words.used
	for f := range sh.tables {
		if n := sh.tables[f].used; n > most {
			best, most = algo.Form(f), n
		}
	}
	return best
}

// lightest returns, of a group of states behind id's place, the one that is
// idle soonest, and when that is. If that is later than idle it goes on until it
// finds one that is not, or has seen all. It returns -1 if there is none but
// those to keep.
func (t *table) lightest(id uint64, idle int64, keep pins) (best int, at int64) {
	best = -1
	if t.used == 0 {
		return best, 0
	}
	seen := 0
	i := t.home(id)
	for range t.n {
		if other := t.id(i); other != 0 && !slices.Contains(keep, other) {
			if when := t.idle(i); best < 0 || when < at {
				best, at = i, when
			}
			seen++
		}
		if best >= 0 && seen >= group && at <= idle {
			break
		}
		if i++; i == t.n {
			i = 0
		}
	}
	return best, at
}
