// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// Direct implements [sluice.DirectStore]. The function is [Store.Take] for a charge alone. It
// looks up the key's word after it has read the clock: that read waits for all earlier writes,
// and the lookup runs meanwhile.
func (s *Store) Direct(of sluice.Store) func(ctx context.Context, p *sluice.Plan, key string, cost int64) (sluice.Decision, error) {
	if of != sluice.Store(s) {
		return nil
	}
	return func(ctx context.Context, p *sluice.Plan, key string, cost int64) (d sluice.Decision, err error) {
		if p == nil || uint64(cost) > sluice.MaxQuota || len(key) > sluice.MaxKeyBytes {
			return s.Take(ctx, sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}})
		}
		hash := s.secret.Sum(p.ScopeID, key)
		s.take(p, key, cost, hash, s.clock.now(), &d)
		return d, nil
	}
}

// take decides a take of one key into d, which is zero. It decides on the key's word without
// a lock if there is one, and else under the lock of the shard.
func (s *Store) take(p *sluice.Plan, key string, cost int64, hash uint64, now int64, d *sluice.Decision) {
	if p.Plain {
		t, a := p.Term(0), s.arrays[hash>>s.shift].Load()
		switch i := a.find(identity(hash, termMask(t.ID))); {
		case i < 0:
		case t.Burst > 0:
			if a.take(a.word(i), t, cost, now, &s.registry.generation, d) {
				return
			}
		case a.takeWindow(a.word(i), t, cost, now, d):
			return
		}
	}
	s.takeLocked(p, key, cost, hash, now, d)
}

// takeLocked is take under the lock of the key's shard.
func (s *Store) takeLocked(p *sluice.Plan, key string, cost int64, hash uint64, now int64, d *sluice.Decision) {
	sh := s.lock(s.part(hash))
	defer sh.mu.Unlock()
	now = s.fresh(sh, now)
	if p.Len() == 1 {
		t := p.Term(0)
		if t.Counted && key != "" && sh.count(t, identity(hash, termMask(t.Series)), cost, now, d) ||
			t.Plain && s.takeWord(sh, p, key, cost, hash, now, d) || key != "" && slotted(t) && s.takeSlot(sh, p, cost, hash, now, d) {
			return
		}
	}
	req := sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}}
	*d = s.oneLocked(&req, hash, now)
}

// take decides a take of cost units at now on the word of a slot, without the lock, and writes
// the decision to d, which is zero. generation is the registry's. It reports false, having
// written nothing but d, if the lock is needed: if there is no state, the cost is 0 or never
// fits, units may wait, or the clock stepped back. It decides as [algo.WordTake] does.
//
// Callers copy d, and the copy waits for the processor's writes to d. So take writes d as
// early as it can: first the outcome of the last take, which it then corrects.
func (a *wordArray) take(at *uint64, t *sluice.Term, cost, now int64, generation *atomic.Uint64, d *sluice.Decision) bool {
	if cost == 0 || cost > t.Burst || t.Queues {
		return false
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
		case word+1 <= 1 || owed > t.Horizon: // no state, busy, or the clock stepped back
			return false
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

// setAllowed writes to d whether cost units are allowed, if d differs.
func setAllowed(d *sluice.Decision, allowed bool, cost int64) {
	if d.Allowed != allowed {
		if !allowed {
			cost = 0
		}
		d.Allowed, d.Spent = allowed, cost
	}
}

// remaining returns the units that are left of a bucket that owes that span.
func remaining(t *sluice.Term, owed span.Span) int64 {
	left := t.Rate.Sub(t.Reach, owed)
	if left.Micros < 0 {
		return 0
	}
	return t.Rate.UnitsOf(left, t.Inverse)
}

// up returns the µs by which a remainder rounds an instant up: 0 or 1.
func up(rem int64) int64 { return int64(uint64(rem+remMask) >> remBits) }
