// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"context"
	"errors"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice"
)

// rulebook is a store that follows rules.md, in fractions, for requests of one limit. It shows
// that the specification allows the behavior in rules.md.
type rulebook struct {
	now     int64
	buckets map[string]*owes
	windows map[string]*account
	voids   map[string]int64    // see algo.Item
	terms   map[uint64]*version // by the ID of the limit
	steps   int
}

// owes is the state of rules.md 1 (one balance, its last instant, the version that wrote it)
// and of rules.md 3 (the instant at which that version became the writer, and the latest
// reservation).
type owes struct {
	units            *big.Rat
	last, since, due int64
	writer           *version
}

func (b *rulebook) Set(micros int64) { b.now = micros }

func (b *rulebook) TakeBatch(context.Context, []sluice.Request, []sluice.Result) error {
	return errors.New("not here")
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func (v *version) perMicro() *big.Rat { return big.NewRat(v.quota, v.window) }

func ceilRat(r *big.Rat) int64 {
	n, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		return n.Int64() + 1
	}
	return n.Int64()
}

// rate returns the faster of the writer's rate and the rate of v.
func (o *owes) rate(v *version) *big.Rat {
	if o.writer == nil || v.faster(o.writer) {
		return v.perMicro()
	}
	return o.writer.perMicro()
}

func (o *owes) at(now int64, rate *big.Rat) *big.Rat {
	left, from := new(big.Rat).Set(o.units), o.last
	less := func(to int64, rate *big.Rat) {
		if to > from {
			left.Sub(left, new(big.Rat).Mul(rate, rat(to-from)))
			from = to
		}
		if left.Sign() < 0 {
			left.SetInt64(0)
		}
	}
	if o.due > from { // a pending balance drains at the writer's rate
		less(min(now, o.due), o.writer.perMicro())
	}
	less(now, rate)
	return left
}

// write makes v the writer if that is allowed.
func (o *owes) write(v *version, now int64, units *big.Rat, writes bool) {
	o.units, o.last = units, now
	if o.writer != v && writes {
		o.writer, o.since = v, now
	}
}

func (b *rulebook) Take(_ context.Context, r sluice.Request) (d sluice.Decision, err error) {
	v := b.terms[r.Plan.Term(0).ID]
	key := r.Plan.Scope() + "\x00" + r.Key
	d.At, d.Due = sluice.Instant(b.now), sluice.Instant(b.now)
	switch {
	case r.Op == sluice.OpReset:
		b.voids[key] = b.now
		if o := b.buckets[key]; o != nil {
			b.voids[key] = max(b.now, o.due)
		}
		if l := b.windows[key]; l != nil {
			b.voids[key] = max(b.now, l.front.hi)
		}
		delete(b.buckets, key)
		delete(b.windows, key)
	case r.Op == sluice.OpRefund && int64(r.At) <= b.voids[key]:
		r.Cost = 0
	}
	if v.kind == bucketKind {
		o := b.buckets[key]
		if o == nil {
			o = &owes{units: rat(0), writer: nil}
			b.buckets[key] = o
		}
		b.bucket(v, o, &r, &d)
	} else {
		l := b.windows[key]
		if l == nil {
			l = &account{series: v.series}
			b.windows[key] = l
		}
		b.window(v, l, &r, &d)
	}
	if r.Outcomes != nil {
		(*r.Outcomes)[0] = sluice.Outcome{Allowed: d.Allowed, TooLarge: d.TooLarge, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
	}
	return d, nil
}

func (b *rulebook) bucket(v *version, o *owes, r *sluice.Request, d *sluice.Decision) {
	now := b.now
	rate := o.rate(v)
	owed := o.at(now, rate)
	foreign := o.pending(v, now)
	wait := func(cost int64) int64 {
		if cost > v.burst+v.lent {
			return never
		}
		from, left := now, owed
		if foreign { // until then it drains at the writer's rate, and no request overtakes
			from = max(o.due, now)
			left = o.at(from, rate)
		}
		over := new(big.Rat).Sub(left, rat(v.burst-max(cost-v.lent, 0)))
		return from - now + max(ceilRat(over.Quo(over, rate)), 0)
	}
	delay := func(cost int64) int64 {
		if !v.queues {
			return 0
		}
		over := new(big.Rat).Add(owed, rat(cost-v.delayAfter))
		return max(ceilRat(over.Quo(over, rate)), 0)
	}
	d.Allowed = true
	// A take that owes more than Burst does not change the writer; neither does such a charge.
	above := func(cost int64) bool {
		return o.writer != nil && new(big.Rat).Add(owed, rat(cost)).Cmp(rat(v.burst)) > 0
	}
	add := func(cost int64, above bool) {
		if cost > 0 {
			o.write(v, now, new(big.Rat).Add(owed, rat(cost)), !above)
		}
		d.Spent = cost
	}
	deny := func(w int64) {
		d.Allowed, d.TooLarge, d.RetryAfter = false, w == never, sluice.MaxRetryAfter
		if w != never {
			d.RetryAfter = micros(w)
		}
	}
	switch r.Op {
	case sluice.OpTake, sluice.OpPeek:
		w := wait(r.Cost)
		if w != never && r.MaxWait > 0 {
			w = max(w, delay(r.Cost)-r.MaxWait.Microseconds())
		}
		if w > 0 {
			deny(w)
			break
		}
		d.Delay = micros(delay(r.Cost))
		if r.Op == sluice.OpTake {
			add(r.Cost, above(r.Cost))
		}
	case sluice.OpTakeUpTo:
		n := min(b.left(v, o), r.Cost)
		if n == 0 {
			deny(wait(1))
			break
		}
		d.Delay = micros(delay(n))
		add(n, above(n))
	case sluice.OpReserve:
		w := wait(r.Cost)
		if w == never || max(w, delay(r.Cost)) > r.MaxWait.Microseconds() {
			if w != never {
				w = max(w, delay(r.Cost)-r.MaxWait.Microseconds())
			}
			deny(w)
			break
		}
		d.Delay = micros(max(w, delay(r.Cost)))
		keeps := above(r.Cost)
		if w > 0 {
			d.At += sluice.Instant(w)
			// The units left when its turn comes, and those that drain until then.
			if owed.Sub(owed, new(big.Rat).Mul(rate, rat(w))); owed.Sign() < 0 {
				owed.SetInt64(0)
			}
			until := v // the version at whose rate it drains until then
			if keeps = above(r.Cost); keeps {
				until = o.writer
			}
			owed.Add(owed, new(big.Rat).Mul(until.perMicro(), rat(w)))
			o.due = max(o.due, now+w)
		}
		before := o.writer
		if add(r.Cost, keeps); before != nil && before != o.writer {
			o.since = now + w // until then it drains at the rate of another
		}
	case sluice.OpCharge:
		if o.writer != nil {
			owed = o.at(now, o.writer.perMicro())
		}
		n := max(min(r.Cost, v.burst+v.debt-ceilRat(owed)), 0)
		d.At = max(d.At, sluice.Instant(o.since)) // no earlier than what v has reserved
		if d.Spent = n; n > 0 {
			sum := new(big.Rat).Add(owed, rat(n))
			o.write(v, now, sum, !foreign && sum.Cmp(rat(v.burst)) <= 0 || o.writer == nil)
		}
	case sluice.OpRefund:
		b.giveBack(v, o, r, d)
	default:
	}
	d.Due += sluice.Instant(d.Delay.Microseconds())
	d.Remaining = b.left(v, o)
	rate = o.rate(v)
	owed = o.at(now, rate)
	d.ResetAfter = micros(ceilRat(owed.Quo(owed, rate)))
	if left := o.at(o.due, rate); o.due > now && left.Sign() > 0 {
		d.ResetAfter = micros(o.due - now + ceilRat(left.Quo(left, rate)))
	}
}

// pending reports whether a reservation of another version lies ahead, or the first one of v
// in a balance that another version wrote.
func (o *owes) pending(v *version, now int64) bool {
	return o.since > now || o.due > now && o.writer != v
}

func (b *rulebook) left(v *version, o *owes) int64 {
	if o.pending(v, b.now) {
		return 0
	}
	return v.left(ceilRat(o.at(b.now, o.rate(v))))
}

func (b *rulebook) giveBack(_ *version, o *owes, r *sluice.Request, d *sluice.Decision) {
	if o.writer == nil || int64(r.At) < o.since {
		return
	}
	owed := o.at(b.now, o.writer.perMicro())
	gone := new(big.Rat).Mul(o.writer.perMicro(), rat(max(max(b.now, o.due)-int64(r.At), 0)))
	held := r.Counted
	if held == 0 {
		held = r.Cost
	}
	back := new(big.Rat).Sub(rat(held), gone)
	for _, most := range []*big.Rat{rat(r.Cost), owed} {
		if most.Cmp(back) < 0 {
			back = most
		}
	}
	if back.Sign() > 0 {
		d.Spent = -ceilRat(back)
		o.write(o.writer, b.now, new(big.Rat).Sub(owed, back), true)
	}
}

// window decides by the rule of v alone over all units, as every form sees all of them.
func (b *rulebook) window(v *version, l *account, r *sluice.Request, d *sluice.Decision) {
	now := b.now
	from := max(now, l.front.hi)
	l.used = nil
	wait := func(cost int64) int64 {
		if cost > v.quota {
			return never
		}
		return l.windowFits(v, from, cost, most) - now
	}
	left := func() int64 {
		if l.front.hi > now {
			return 0
		}
		return max(v.quota-l.windowHeld(v, now, most), 0)
	}
	add := func(at, n int64) {
		d.Spent = n
		if n == 0 {
			return
		}
		b.steps++
		l.insert(unit{at: at, step: b.steps, n: n, most: n})
		if at > now {
			l.front = exactly(at)
		}
	}
	d.Allowed = true
	deny := func(w int64) {
		d.Allowed, d.TooLarge, d.RetryAfter = false, w == never, sluice.MaxRetryAfter
		if w != never {
			d.RetryAfter = micros(w)
		}
	}
	switch r.Op {
	case sluice.OpTake, sluice.OpPeek:
		if w := wait(r.Cost); w > 0 {
			deny(w)
		} else if r.Op == sluice.OpTake {
			add(now, r.Cost)
		}
	case sluice.OpTakeUpTo:
		if n := min(left(), r.Cost); n > 0 {
			add(now, n)
		} else {
			deny(wait(1))
		}
	case sluice.OpReserve:
		w := wait(r.Cost)
		if w > r.MaxWait.Microseconds() {
			deny(w)
			break
		}
		d.Delay = micros(w)
		d.At += sluice.Instant(w)
		d.Due = d.At
		add(int64(d.At), r.Cost)
	case sluice.OpCharge:
		d.At = sluice.Instant(from)
		d.Delay = micros(from - now)
		d.Due = d.At
		add(from, max(min(r.Cost, v.quota+v.debt-l.windowHeld(v, from, most)), 0))
	case sluice.OpRefund:
		if l.windowBack(v, from, int64(r.At), r.Cost).hi > 0 {
			b.takeBack(l, r, d)
		}
	default:
	}
	d.Remaining = left()
	d.ResetAfter = micros(l.windowReset(v, now, most))
}

func (b *rulebook) takeBack(l *account, r *sluice.Request, d *sluice.Decision) {
	left := r.Cost
	for i := range l.units {
		if u := &l.units[i]; u.at == int64(r.At) {
			n := min(left, u.n)
			u.n, u.most = u.n-n, u.most-n
			left -= n
		}
	}
	d.Spent = left - r.Cost
}

// TestRulebook: the specification allows the behavior in rules.md.
func TestRulebook(t *testing.T) {
	worlds := 4000
	if text := os.Getenv("SLUICE_SPEC_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("SLUICE_SPEC_STEPS: %v", err)
		}
		worlds = n / perWorld
	}
	broken := make(map[string]bool)
	total := 0
	for n := range worlds {
		rnd := rand.New(rand.NewPCG(7, uint64(n)))
		w := drawVersions(rnd)
		if rnd.IntN(4) == 0 {
			w = drawForms(rnd)
		}
		w.one, w.taken = true, true
		open := func(testing.TB) Store { return newRulebook(t, w) }
		c, err := w.compile("")
		if err != nil || !inRulebook(c) {
			continue
		}
		j := newChecker(c, newRulebook(t, w), start, "k")
		f, seq := runRandom(rnd, j)
		total += j.steps
		if f == nil {
			continue
		}
		f.steps = seq
		if name := w.Name + f.rule(); !broken[name] {
			broken[name] = true
			report(t, w, open, f, "random")
		}
		if len(broken) > 5 {
			break
		}
	}
	t.Log(total, "steps")
}

func newRulebook(t *testing.T, w *World) *rulebook {
	t.Helper()
	c, err := w.compile("")
	if err != nil {
		t.Fatal(err)
	}
	b := &rulebook{buckets: make(map[string]*owes), windows: make(map[string]*account), voids: make(map[string]int64), terms: make(map[uint64]*version)}
	for i, p := range c.plans {
		b.terms[p.Term(0).ID] = c.terms[i][0]
	}
	return b
}

// inRulebook reports whether the rulebook covers the limits of a world: only buckets, or only
// windows that count admitted units exactly.
func inRulebook(c *compiled) bool {
	buckets := 0
	for _, terms := range c.terms {
		switch v := terms[0]; v.kind {
		case bucketKind:
			buckets++
			if v.countDenied {
				return false
			}
		case fixedKind, counterKind, logKind:
			if v.countDenied || v.kind == counterKind && v.debt > 0 {
				return false
			}
		default:
			return false
		}
	}
	return !c.Starts && (buckets == 0 || buckets == len(c.terms))
}
