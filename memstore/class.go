// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// class decides whether a state that is alive may be evicted. It is stored in the
// state's slot and costs no memory.
type class uint8

const (
	used   class = iota // taken since the hand last passed: see [shard.makeRoom]
	cold                // not taken since, so it may be evicted
	denied              // the last take found too little left
	kept                // the state of the empty key, which all requests share

	classBits = 2
	classMask = 1<<classBits - 1
	// shielded is the bit that denied and kept have in common: the hand does not
	// evict them.
	shielded = 2
)

// after returns the class of a state of class c that a take has changed.
func (c class) after(d *sluice.Decision) class {
	switch {
	case c == kept:
		return kept
	case d.Allowed:
		return used
	default:
		return denied
	}
}

// classOf returns the class in a word of [words], used if there is none.
func classOf(word uint64) class { return class(word >> remBits & classMask) }

// marked returns word after a take that did not change the state. Its class becomes
// denied if the take was denied, unless the word is 0 or shielded already. A denial
// of a cost that never fits does not count.
func marked(word uint64, d *sluice.Decision) uint64 {
	if d.Allowed || word&wordShielded != 0 || word == 0 || d.TooLarge {
		return word
	}
	return withClass(word, denied)
}

func withClass(word uint64, c class) uint64 {
	return word&^(classMask<<remBits) | uint64(c)<<remBits
}

func (t *table) class(i int) class {
	return class(t.slots[i*t.stride+1] >> lowClass & classMask)
}

func (t *table) setClass(i int, c class) {
	w := &t.slots[i*t.stride+1]
	*w = *w&^(classMask<<lowClass) | uint64(c)<<lowClass
}

// classify chooses the class of an item's state after any decision but a peek. If
// the item denied and its state is not written, the stored state is marked. A charge
// or a refund leaves a denied key denied.
func (l *location) classify(op sluice.Op, allowed bool, it *algo.Item) {
	denies := !allowed && it.Denied()
	if !it.Written {
		if denies && l.class&shielded == 0 { // else it is marked already
			l.mark()
		}
		return
	}
	takes := op == sluice.OpTake || op == sluice.OpTakeUpTo || op == sluice.OpReserve
	switch {
	case l.empty && l.shard.keeps(l.class):
		l.class = kept
	case denies:
		l.class = denied
	case takes && allowed:
		l.class = used
	case l.class != denied:
		l.class = used
	}
}

// mark changes the class of the states that load found to denied, except kept ones.
func (l *location) mark() {
	if l.word != 0 && l.word&wordShielded == 0 {
		l.word = withClass(l.word, denied) // release puts it back
	}
	for r := range l.ranks {
		l.shard.mark(l.sizes[r], l.rank(r))
	}
}

// mark changes the class of the state of id in a slot to denied, unless it is kept.
func (sh *shard) mark(size stateSize, id uint64) {
	t := &sh.tables[size]
	if i := t.find(id); i >= 0 && t.class(i)&shielded == 0 {
		t.setClass(i, denied)
	}
}

// count counts a state of class c if c is kept.
func (e *eviction) count(c class) {
	if c == kept {
		e.kept++
	}
}

// keeps reports whether a state of the empty key, whose class was c, becomes kept. At
// most a quarter of a shard's states are kept, so that a program with very many such
// limits leaves room for other keys.
func (sh *shard) keeps(c class) bool {
	most := sh.cap / keptPart
	if c == kept || most == 0 {
		return c == kept
	}
	if sh.eviction.kept >= most {
		_, sh.eviction.kept = sh.shielded(0) // some may have been dropped since
	}
	if sh.eviction.kept >= most {
		return false
	}
	sh.eviction.kept++
	return true
}
