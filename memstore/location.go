// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"cmp"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
)

// location finds the states of one item: those of its key under the name of its limit,
// in all forms. The state of a bucket that one limit alone uses is a word. All others
// are in slots, one for each form, which name the limit that wrote them. The state that
// lives longest has rank 0, so that the chain of ranks never breaks before its end.
type location struct {
	shard *shard
	scope string
	term  *sluice.Term
	hash  uint64

	version *version // of the item's limit, nil until it is looked up
	empty   bool     // whether the key is empty
	class   class    // of the loaded state, later of the stored one
	word    uint64   // the loaded word, which the location owns; 0 if there is none
	owner   uint64   // the ID of the limit that wrote it
	ranks   int      // number of slots found
	sizes   [bounds.MaxForms]stateSize

	beside bool // whether the slot of rank 0 is flagged, as the key has open holds or other forms
	held   bool // whether there will be open holds
	holds  int  // number of holds before the decision
}

// rank returns the identity of the slot of rank r.
func (l *location) rank(r int) uint64 {
	const golden = 0x9e3779b97f4a7c15
	return identity(l.hash, termMask(l.term.Series+uint64(r)*golden))
}

// wordOf returns the identity of the word of the limit with that ID.
func (l *location) wordOf(id uint64) uint64 { return identity(l.hash, termMask(id)) }

// load reads the states of the item's key.
func (l *location) load(it *algo.Item, now int64) {
	it.State, it.Others, it.Start = algo.State{}, it.Others[:0], 0
	if it.Term.InitialDeficit == 0 && !it.Term.PreFilled && l.loadOne(it, now) {
		return
	}
	l.loadAll(it, now)
}

// loadOne reads the state of a key that has only one, in the item's form, as most keys
// do. It reports false if the first lookup does not find such a state.
func (l *location) loadOne(it *algo.Item, now int64) bool {
	form := sizeOfForm(it.Term)
	if form == sizeWord {
		return l.loadWord(it.Term, now, &it.State)
	}
	t, i := l.shard.slot(form, l.rank(0), now)
	if i < 0 || t.slots[i*t.stride+1]&more != 0 {
		return false
	}
	v := l.shard.registry.at(t.by(i))
	if v == nil || v.term.ID != it.Term.ID && v.term.Form != it.Term.Form {
		return false
	}
	l.shard.read(t, i, &it.State)
	l.ranks, l.sizes[0], l.class = 1, t.size, t.class(i)
	if v.term.ID == it.Term.ID {
		l.version, it.State.By = v, nil
	} else {
		l.lookUp(now) // registers the limit, even if it writes nothing
	}
	return true
}

// loadWord reads the word that t has written. It removes an idle word, which must not
// be used again beside a state of another limit.
func (l *location) loadWord(t *sluice.Term, now int64, s *algo.State) bool {
	at := l.wordOf(t.ID)
	word, live := l.shard.word(t, at, now, s)
	if !live {
		*s = algo.State{}
		if word != 0 {
			l.shard.forgetWord(at)
			l.shard.latest = max(l.shard.latest, now)
		}
		return false
	}
	l.word, l.owner, l.class = word, t.ID, classOf(word)
	return true
}

// loadAll reads all states of the key under the limit's name, whichever limit wrote them.
func (l *location) loadAll(it *algo.Item, now int64) {
	var room [bounds.MaxForms]algo.State
	states := room[:0]
	l.lookUp(now)
	ser := l.version.series
	if it.Start = ser.start.Load(); it.Term.InitialDeficit > 0 || it.Term.PreFilled {
		it.Start = ser.startOf(now)
	}
	if w := ser.words.Load(); w != nil {
		var s algo.State
		if l.loadWord(w.term, now, &s) {
			s.By = w.term
			states = append(states, s)
		}
	}
	if ser.sizes.Load() != 0 && l.word == 0 {
		states = l.loadSlots(states, now)
	}
	it.Pick(states)
	if it.Term.Burst > 0 && it.State.Zero() && !ser.alone(now) {
		it.State.Since = now // receipts of other limits are not of this balance
	}
}

func (l *location) loadSlots(states []algo.State, now int64) []algo.State {
	for l.ranks < bounds.MaxForms {
		t, i := l.shard.slot(sizeOfForm(l.term), l.rank(l.ranks), now)
		if i < 0 {
			if l.ranks > 0 { // it is idle, and a store of the others cuts it off
				l.shard.latest = max(l.shard.latest, now)
			}
			break
		}
		var s algo.State
		if l.shard.read(t, i, &s) == nil {
			l.shard.remove(t, i) // it names no version: there were too many
			break
		}
		states = append(states, s)
		l.class = max(l.class, t.class(i))
		l.beside = l.beside || l.ranks == 0 && t.slots[i*t.stride+1]&more != 0
		l.sizes[l.ranks] = t.size
		l.ranks++
		if t.slots[i*t.stride+1]&more == 0 {
			break
		}
	}
	return states
}

// lookUp sets the version of the item's limit.
func (l *location) lookUp(now int64) {
	if l.version == nil {
		l.version = l.shard.registry.enter(l.scope, l.term, now)
	}
}

// release puts back the loaded word.
func (l *location) release() {
	if l.word != 0 {
		l.shard.words.unlock(l.wordOf(l.owner), l.word)
	}
}

// pin appends the identities under which states may be stored.
func (l *location) pin(list pins, others int) pins {
	list = append(list, l.wordOf(l.term.ID)) // new or loaded
	if l.word != 0 && l.owner != l.term.ID {
		list = append(list, l.wordOf(l.owner))
	}
	for r := range max(l.ranks, others+1) {
		list = append(list, l.rank(r))
	}
	return list
}

// store keeps the states of an item that was written.
func (l *location) store(it *algo.Item, now int64, keep pins) {
	if len(it.Others) > 0 || l.ranks > 1 {
		l.storeAll(it, now, keep)
		return
	}
	s := &it.State
	if s.Idle <= now {
		l.shard.latest = max(l.shard.latest, now)
		l.forgetAll()
		l.shard.forgetOthers(sizeWord, l.rank(0), now) // idle states must not be used again
		return
	}
	v := l.writer(s, now)
	if l.keepsWord(v, s, now) {
		if v.series.sizes.Load() != 0 {
			l.shard.forgetOthers(sizeWord, l.rank(0), now)
		}
		if id := v.term.ID; l.word != 0 && l.owner != id {
			l.shard.forgetWord(l.wordOf(l.owner))
		}
		l.shard.storeWord(l.wordOf(v.term.ID), now, s, l.class, keep)
		return
	}
	if l.word != 0 {
		l.shard.forgetWord(l.wordOf(l.owner))
	}
	l.storeSlot(0, v, s, now, l.flags(), keep)
}

// flags returns the flags of the slot of rank 0 of a key with one form.
func (l *location) flags() uint64 {
	if l.held {
		return more
	}
	return 0
}

// writer returns the version that s is stored under.
func (l *location) writer(s *algo.State, now int64) *version {
	if s.By == nil || s.By.ID == l.term.ID {
		l.lookUp(now)
		return l.version
	}
	return l.shard.registry.enter(l.scope, s.By, now)
}

// keepsWord reports whether s, written by v, is kept in a word. A bucket's state is one
// only if no other limit can have used the balance, as takes also use an idle word.
func (l *location) keepsWord(v *version, s *algo.State, now int64) bool {
	return (v.term.Burst == 0 || v.series.alone(now)) && plainState(s) && !s.Reserved && !l.held && s.A <= v.term.MostInWord && sizeOfForm(v.term) == sizeWord && v.series.words.Load() == v
}

func (l *location) storeSlot(r int, v *version, s *algo.State, now int64, flags uint64, keep pins) {
	size := sizeOf(v, s)
	v.series.has(size)
	l.shard.store(size, l.rank(r), now, v, s, l.class, flags, keep)
}

// storeAll keeps the states of a key that has or had several forms.
func (l *location) storeAll(it *algo.Item, now int64, keep pins) {
	states := slices.DeleteFunc(it.Keep(nil), func(s algo.State) bool { return s.Idle <= now })
	l.shard.latest = max(l.shard.latest, now) // as some may be idle
	for i := range states {
		states[i].Ring = slices.Clone(states[i].Ring) // forgetAll frees its memory
	}
	slices.SortFunc(states, func(a, b algo.State) int { return cmp.Compare(b.Idle, a.Idle) })
	l.forgetAll()
	for i := range states {
		s := &states[i]
		v := l.writer(s, now)
		if len(states) == 1 && l.keepsWord(v, s, now) {
			l.shard.storeWord(l.wordOf(v.term.ID), now, s, l.class, keep)
			return
		}
		flags := l.flags()
		if i < len(states)-1 {
			flags = more
		}
		l.storeSlot(i, v, s, now, flags, keep)
	}
}

// forgetAll drops all states of the key.
func (l *location) forgetAll() {
	if l.word != 0 {
		l.shard.forgetWord(l.wordOf(l.owner))
	}
	for r := range l.ranks {
		l.shard.forget(l.sizes[r], l.rank(r))
	}
}
