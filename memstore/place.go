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

// place locates the states of one item: those of its key under the name of its limit,
// in all forms. The state of a bucket that one limit alone uses is a word. All others
// are in slots, one for each form, which name the limit that wrote them. The state that
// lives longest has rank 0, so that the chain of ranks never breaks before its end.
type place struct {
	shard *shard
	scope string
	term  *sluice.Term
	hash  uint64

	version *version // of the item's limit, nil until it is looked up
	empty   bool     // whether the key is empty
	class   class    // of the loaded state, later of the stored one
	word    uint64   // the loaded word, which the place owns; 0 if there is none
	owner   uint64   // the ID of the limit that wrote it
	ranks   int      // number of slots found
	sizes   [bounds.MaxForms]stateSize
}

// rank returns the identity of the slot of rank r.
func (p *place) rank(r int) uint64 {
	const golden = 0x9e3779b97f4a7c15
	return identity(p.hash, termMask(p.term.Series+uint64(r)*golden))
}

// wordOf returns the identity of the word of the limit with that ID.
func (p *place) wordOf(id uint64) uint64 { return identity(p.hash, termMask(id)) }

// load reads the states of the item's key.
func (p *place) load(it *algo.Item, now int64) {
	it.State, it.Others, it.Start = algo.State{}, it.Others[:0], 0
	if it.Term.InitialDeficit == 0 && !it.Term.PreFilled && p.loadOne(it, now) {
		return
	}
	p.loadAll(it, now)
}

// loadOne reads the state of a key that has only one, in the item's form, as most keys
// do. It reports false if the first lookup does not find such a state.
func (p *place) loadOne(it *algo.Item, now int64) bool {
	form := sizeOfForm(it.Term)
	if form == sizeWord {
		return p.loadWord(it.Term, now, &it.State)
	}
	t, i := p.shard.slot(form, p.rank(0), now)
	if i < 0 || t.slots[i*t.stride+1]&more != 0 {
		return false
	}
	v := p.shard.registry.at(t.by(i))
	if v == nil || v.term.ID != it.Term.ID && v.term.Form != it.Term.Form {
		return false
	}
	p.shard.read(t, i, &it.State)
	p.ranks, p.sizes[0], p.class = 1, t.size, t.class(i)
	if v.term.ID == it.Term.ID {
		p.version, it.State.By = v, nil
	} else {
		p.lookUp(now) // registers the limit, even if it writes nothing
	}
	return true
}

// loadWord reads the word that t has written. It removes an idle word, which must not
// be used again beside a state of another limit.
func (p *place) loadWord(t *sluice.Term, now int64, s *algo.State) bool {
	at := p.wordOf(t.ID)
	word, live := p.shard.word(t, at, now, s)
	if !live {
		*s = algo.State{}
		if word != 0 {
			p.shard.forgetWord(at)
			p.shard.latest = max(p.shard.latest, now)
		}
		return false
	}
	p.word, p.owner, p.class = word, t.ID, classOf(word)
	return true
}

// loadAll reads all states of the key under the limit's name, whichever limit wrote them.
func (p *place) loadAll(it *algo.Item, now int64) {
	var room [bounds.MaxForms]algo.State
	states := room[:0]
	p.lookUp(now)
	ser := p.version.series
	if it.Start = ser.start.Load(); it.Term.InitialDeficit > 0 || it.Term.PreFilled {
		it.Start = ser.startOf(now)
	}
	if w := ser.words.Load(); w != nil {
		var s algo.State
		if p.loadWord(w.term, now, &s) {
			s.By = w.term
			states = append(states, s)
		}
	}
	if ser.sizes.Load() != 0 && p.word == 0 {
		states = p.loadSlots(states, now)
	}
	it.Pick(states)
	if it.Term.Burst > 0 && it.State.Zero() && !ser.alone(now) {
		it.State.Since = now // receipts of other limits are not of this balance
	}
}

func (p *place) loadSlots(states []algo.State, now int64) []algo.State {
	for p.ranks < bounds.MaxForms {
		t, i := p.shard.slot(sizeOfForm(p.term), p.rank(p.ranks), now)
		if i < 0 {
			if p.ranks > 0 { // it is idle, and a store of the others cuts it off
				p.shard.latest = max(p.shard.latest, now)
			}
			break
		}
		var s algo.State
		if p.shard.read(t, i, &s) == nil {
			p.shard.remove(t, i) // it names no version: there were too many
			break
		}
		states = append(states, s)
		p.class = max(p.class, t.class(i))
		p.sizes[p.ranks] = t.size
		p.ranks++
		if t.slots[i*t.stride+1]&more == 0 {
			break
		}
	}
	return states
}

// lookUp sets the version of the item's limit.
func (p *place) lookUp(now int64) {
	if p.version == nil {
		p.version = p.shard.registry.enter(p.scope, p.term, now)
	}
}

// release puts back the loaded word.
func (p *place) release() {
	if p.word != 0 {
		p.shard.words.unlock(p.wordOf(p.owner), p.word)
	}
}

// pin appends the identities under which states may be stored.
func (p *place) pin(list pins, others int) pins {
	list = append(list, p.wordOf(p.term.ID)) // new or loaded
	if p.word != 0 && p.owner != p.term.ID {
		list = append(list, p.wordOf(p.owner))
	}
	for r := range max(p.ranks, others+1) {
		list = append(list, p.rank(r))
	}
	return list
}

// store keeps the states of an item that was written.
func (p *place) store(it *algo.Item, now int64, keep pins) {
	if len(it.Others) > 0 || p.ranks > 1 {
		p.storeAll(it, now, keep)
		return
	}
	s := &it.State
	if s.Idle <= now {
		p.shard.latest = max(p.shard.latest, now)
		p.forgetAll()
		p.shard.forgetOthers(sizeWord, p.rank(0), now) // idle states must not be used again
		return
	}
	v := p.writer(s, now)
	if p.keepsWord(v, s, now) {
		if v.series.sizes.Load() != 0 {
			p.shard.forgetOthers(sizeWord, p.rank(0), now)
		}
		if id := v.term.ID; p.word != 0 && p.owner != id {
			p.shard.forgetWord(p.wordOf(p.owner))
		}
		p.shard.storeWord(p.wordOf(v.term.ID), now, s, p.class, keep)
		return
	}
	if p.word != 0 {
		p.shard.forgetWord(p.wordOf(p.owner))
	}
	p.storeSlot(0, v, s, now, 0, keep)
}

// writer returns the version that s is stored under.
func (p *place) writer(s *algo.State, now int64) *version {
	if s.By == nil || s.By.ID == p.term.ID {
		p.lookUp(now)
		return p.version
	}
	return p.shard.registry.enter(p.scope, s.By, now)
}

// keepsWord reports whether s, written by v, is kept in a word. A bucket's state is one
// only if no other limit can have used the balance, as takes also use an idle word.
func (p *place) keepsWord(v *version, s *algo.State, now int64) bool {
	return (v.term.Burst == 0 || v.series.alone(now)) && plainState(s) && !s.Reserved && s.A <= v.term.MostInWord && sizeOfForm(v.term) == sizeWord && v.series.words.Load() == v
}

func (p *place) storeSlot(r int, v *version, s *algo.State, now int64, flags uint64, keep pins) {
	size := sizeOf(v, s)
	v.series.has(size)
	p.shard.store(size, p.rank(r), now, v, s, p.class, flags, keep)
}

// storeAll keeps the states of a key that has or had several forms.
func (p *place) storeAll(it *algo.Item, now int64, keep pins) {
	states := slices.DeleteFunc(it.Keep(nil), func(s algo.State) bool { return s.Idle <= now })
	p.shard.latest = max(p.shard.latest, now) // as some may be idle
	for i := range states {
		states[i].Ring = slices.Clone(states[i].Ring) // forgetAll frees its memory
	}
	slices.SortFunc(states, func(a, b algo.State) int { return cmp.Compare(b.Idle, a.Idle) })
	p.forgetAll()
	for i := range states {
		s := &states[i]
		v := p.writer(s, now)
		if len(states) == 1 && p.keepsWord(v, s, now) {
			p.shard.storeWord(p.wordOf(v.term.ID), now, s, p.class, keep)
			return
		}
		flags := uint64(0)
		if i < len(states)-1 {
			flags = more
		}
		p.storeSlot(i, v, s, now, flags, keep)
	}
}

// forgetAll drops all states of the key.
func (p *place) forgetAll() {
	if p.word != 0 {
		p.shard.forgetWord(p.wordOf(p.owner))
	}
	for r := range p.ranks {
		p.shard.forget(p.sizes[r], p.rank(r))
	}
}
