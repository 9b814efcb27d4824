// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// short is how a [sluice.Limiter] finds direct.
type short = compiled.Short[interface {
	TakeOne(context.Context, *sluice.Plan, string, int64) (sluice.Decision, error)
}]

// direct is a Store to a [sluice.Limiter].
type direct Store

// TakeOne is [Store.Take] of a charge alone. Reading the clock waits for all that came
// before, and takes long: so the slot of a word is looked for after it, in the meantime.
func (s *direct) TakeOne(ctx context.Context, p *sluice.Plan, key string, cost int64) (d sluice.Decision, err error) {
	if p == nil || uint64(cost) > sluice.MaxQuota || len(key) > sluice.MaxKeyBytes {
		return (*Store)(s).Take(ctx, sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}})
	}
	t, hash := p.Term(0), s.secret.Sum(p.ScopeID(), key)
	now := int64(-1)
	if s.clock.custom == nil {
		now = s.clock.at(s.clock.elapsed())
	}
	if now < 0 {
		now = s.clock.now()
	}
	var a *wordArray
	if p.Plain() {
		a = s.arrays[hash>>s.shift].Load()
	}
	i := a.find(identity(hash, termMask(t.ID)))
	switch { // of a word as takeWord, which is a call more
	case i >= 0 && t.Burst > 0:
		if a.take(a.word(i), t, cost, now, &s.registry.generation, &d) {
			return d, nil
		}
	case i >= 0:
		if a.takeWindow(a.word(i), t, cost, now, &s.registry.generation, &d) {
			return d, nil
		}
	case t.Counted && !p.Plain() && p.Len() == 1 && key != "":
		sh := (*Store)(s).lock((*Store)(s).part(hash))
		now = (*Store)(s).fresh(sh, now)
		done, pair := sh.count(t, identity(hash, termMask(t.Series)), cost, now, &d)
		if done {
			sh.mu.Unlock()
		} else {
			(*Store)(s).uncounted(sh, p, key, cost, hash, pair, now, &d)
		}
		return d, nil
	}
	(*Store)(s).charge(p, key, cost, hash, now, &d)
	return d, nil
}

// charge is a take of a charge alone under the lock of its shard.
func (s *Store) charge(p *sluice.Plan, key string, cost int64, hash uint64, now int64, d *sluice.Decision) {
	req := sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}}
	s.one(&req, hash, p.Plain(), now, d)
}

// takeWord is take or takeWindow.
func (a *wordArray) takeWord(at *uint64, t *sluice.Term, cost, now int64, generation *atomic.Uint64, d *sluice.Decision) bool {
	if t.Burst > 0 {
		return a.take(at, t, cost, now, generation, d)
	}
	return a.takeWindow(at, t, cost, now, generation, d)
}

// uncounted is charge where [shard.count] has not decided, which said pair. It unlocks the
// shard.
func (s *Store) uncounted(sh *shard, p *sluice.Plan, key string, cost int64, hash uint64, pair int, now int64, d *sluice.Decision) {
	defer sh.mu.Unlock()
	req := sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}}
	t := p.Term(0)
	done := slotTake(&req, t)
	switch {
	case done && pair < 0:
		done = s.first(sh, &req, t, identity(hash, termMask(t.Series)), pair, now, d)
	case done:
		done = s.single(sh, &req, t, hash, now, d)
	}
	if !done {
		*d = s.oneLocked(&req, hash, now)
	}
}

// take decides a plain take of cost units at now into d, which is zero, on the word of a
// slot and without the lock. generation is the registry's. It reports false, having written
// nothing but d, where the lock is needed. It equals takeAny on what most takes are.
//
// Callers copy d, and a copy of what a processor has still to write takes longer than all
// the rest: so d is written as early as can be. At first it says what the last take was told.
func (a *wordArray) take(at *uint64, t *sluice.Term, cost, now int64, generation *atomic.Uint64, d *sluice.Decision) bool {
	if cost == 0 || cost > t.Burst || t.Queues() {
		return a.takeAny(at, t, cost, now, generation, d)
	}
	step := t.Rate.One
	if cost != 1 {
		step = t.Rate.Times(cost)
	}
	if classOf(atomic.LoadUint64(at)) != denied {
		d.Allowed, d.Spent = true, cost
	}
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
	now -= a.epoch
	for {
		word := atomic.LoadUint64(at)
		idle, rem := int64(word>>wordLowBits), int64(word&remMask)
		owed := idle - now
		var due, part int64 // when the bucket is full after this take: due + part/Den
		switch {
		case word+1 <= 1: // none, or busy
			return false
		case owed > t.Horizon:
			return a.takeAny(at, t, cost, now+a.epoch, generation, d)
		case owed > 0:
			due, part = idle-up(rem)+step.Micros, rem+step.Rem
			if part >= t.Rate.Den {
				part -= t.Rate.Den
				due++
			}
		default:
			if a.generation != generation.Load() || idle+a.epoch <= a.doubt {
				return false
			}
			due, part = now+step.Micros, step.Rem
		}
		left, lack := t.Reach.Micros-due, t.Reach.Rem-part // of the burst, after this take: + now
		if lack < 0 {
			lack += t.Rate.Den
			left--
		}
		if left += now; left < 0 {
			if word&wordShielded == 0 && !atomic.CompareAndSwapUint64(at, word, withClass(word, denied)) {
				continue
			}
			setAllowed(d, false, cost)
			d.RetryAfter = min(time.Duration(-left)*time.Microsecond, sluice.MaxRetryAfter)
			d.ResetAfter = time.Duration(owed) * time.Microsecond
			if cost > 1 { // else less than 1 unit is left
				d.Remaining = remaining(t, span.Span{Micros: owed - up(rem), Rem: rem})
			}
			return true
		}
		due += up(part)
		if due <= 0 || due > wordIdleMax {
			return false
		}
		c := word & (classMask << remBits)
		if c != uint64(kept)<<remBits {
			c = uint64(used) << remBits
		}
		setAllowed(d, true, cost)
		d.Remaining = t.Rate.UnitsOf(span.Span{Micros: left, Rem: lack}, t.Inverse)
		d.ResetAfter = time.Duration(due-now) * time.Microsecond
		if atomic.CompareAndSwapUint64(at, word, uint64(due)<<wordLowBits|c|uint64(part)) {
			return true
		}
		d.Remaining, d.ResetAfter = 0, 0
	}
}

// setAllowed writes to d whether cost units are allowed, unless d says so already.
func setAllowed(d *sluice.Decision, allowed bool, cost int64) {
	if d.Allowed != allowed {
		if !allowed {
			cost = 0
		}
		d.Allowed, d.Spent = allowed, cost
	}
}

// remaining returns how many units are left of a bucket that is owed for so long.
func remaining(t *sluice.Term, owed span.Span) int64 {
	left := t.Rate.Sub(t.Reach, owed)
	if left.Micros < 0 {
		return 0
	}
	return t.Rate.UnitsOf(left, t.Inverse)
}

// up is what a remainder adds to an instant that is rounded up.
func up(rem int64) int64 { return int64(uint64(rem+remMask) >> remBits) }

// takeAny is take by [algo.WordTake].
func (a *wordArray) takeAny(at *uint64, t *sluice.Term, cost, now int64, generation *atomic.Uint64, d *sluice.Decision) bool {
	for {
		word := atomic.LoadUint64(at)
		if word == busy || word == 0 {
			return false
		}
		s := a.stateOf(t, word)
		idle, rem := s.Idle, s.A
		if idle <= now && (a.generation != generation.Load() || idle <= a.doubt) || idle-now > t.Horizon {
			return false
		}
		newIdle, newRem := algo.WordTake(t, idle, rem, now, cost, d)
		var next uint64
		if newIdle == idle && newRem == rem {
			if next = marked(word, d); next == word {
				return true
			}
		} else {
			if !a.inRange(newIdle, newRem) || newIdle <= now {
				return false
			}
			next = a.pack(newIdle, newRem, classOf(word).after(d))
		}
		if atomic.CompareAndSwapUint64(at, word, next) {
			return true
		}
	}
}
