// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

// spend counts units under v at an instant, which is ahead of now for a
// reservation. n is exact, except for a charge.
func (l *account) spend(v *version, step int, now, at int64, n between) {
	if n.hi <= 0 || v.kind == blockKind {
		return
	}
	l.prune(now)
	var owed between
	if v.kind == bucketKind {
		owed = l.owed(v, at)
		if n.lo == 0 {
			owed.lo = min(owed.lo, l.least(v, at)) // it may have written nothing
		}
		owed = l.creditNow(v, now, at, owed, n)
	}
	rounded := l.turn(v)
	l.use(v)
	if v.kind == bucketKind {
		l.bal.add(at, owed, n, l.series.den)
		l.bal.forget(now)
	}
	if v.kind == warmKind {
		l.warm = l.warm.spend(v, now, at, n.hi)
		l.loose = l.loose || n.lo != n.hi
	}
	if v.kind == refillKind {
		if at > now {
			l.loose = true // the position of the grid is not stated then
		}
		l.missed = l.missed.at(v, at)
		l.missed.missing += n.hi
	}
	l.owe(at, n.hi)
	l.unsure = l.unsure || n.lo != n.hi
	u := unit{at: at, step: step, n: n.lo, most: n.hi, drains: at, rounded: rounded}
	if k := len(l.units); k > 0 {
		u.drains = max(at, l.units[k-1].at)
	}
	if u.drains == at {
		l.units = append(l.units, u)
		l.env.add(&u)
		return
	}
	l.insert(u)
	l.env.grow(l)
}

// owe makes the account loose if a counter with a debt counts more than its quota: the excess
// is paid in later windows, and only the bound is stated then.
func (l *account) owe(at, n int64) {
	for _, v := range l.series.versions {
		if v.kind == counterKind && v.debt > 0 {
			l.loose = l.loose || l.units.since((cell(at, v.sub)-v.parts)*v.sub-1, most)+n > v.quota
		}
	}
}

// turn makes v the writer of the balance. It returns the most by which that rounds the balance
// up: 1 µs of time (rules.md 1).
func (l *account) turn(v *version) (rounded int64) {
	if v.kind != bucketKind {
		return 0
	}
	if l.owner != nil && l.owner != v {
		_, rounded = v.drained(1)
	}
	l.owner = v
	return rounded
}

func (l *account) insert(u unit) {
	i := len(l.units)
	for i > 0 && l.units[i-1].at > u.at {
		i--
	}
	l.units = append(l.units, unit{})
	copy(l.units[i+1:], l.units[i:])
	l.units[i] = u
}

// deny counts a denial under a limit that counts denials. In a log or histogram it counts
// between not at all and a whole window: which denials a full one forgets is not evaluated,
// nor whether they count from the frontier on. A balance rises by the cost, at most to Burst,
// and stays unchanged if it owes that much already.
func (l *account) deny(v *version, step int, now, cost int64) {
	var owed between
	least := int64(0) // what is owed if the denial is not written
	if v.kind == bucketKind {
		if owed, least = l.owed(v, now), l.least(v, now); owed.lo >= v.burst*l.series.den {
			return
		}
		l.turn(v)
	}
	if v.kind == refillKind {
		l.denyRefill(v, now, cost)
	}
	n := between{0, min(cost, v.full()+1)}
	if room, ok := l.roomForDenied(v, now); ok {
		n = exactly(min(cost, room))
	}
	if n.hi <= 0 {
		return
	}
	l.unsure = l.unsure || n.lo != n.hi
	l.loose = l.loose || v.kind == firstKind && l.front.hi > now // it may not count
	l.use(v)
	l.owe(max(now, l.front.hi), n.hi)
	l.insert(unit{at: max(now, l.front.hi), step: step, n: n.lo, most: n.hi, denied: true, full: v.full(), drains: now})
	if v.kind == bucketKind {
		l.denyBalance(v, now, cost, owed, least)
	}
}

// roomForDenied returns how many denied units the running window or sub-window can count: up
// to Quota, and one more if a part of a unit may pass. It reports false if that is not stated:
// behind a reservation, and for all but fixed windows and counters.
func (l *account) roomForDenied(v *version, now int64) (int64, bool) {
	if v.kind != fixedKind && v.kind != counterKind || l.unsure || l.loose || l.front.hi > now {
		return 0, false
	}
	room := v.quota - l.units.inCells(v.sub, cell(now, v.sub), cell(now, v.sub), most)
	if v.kind == counterKind && v.rule == interpolated {
		room++
	}
	return room, !v.starts() && !l.manyForms(v)
}

// denyBalance raises the debt. Whether it does so behind a reservation is not stated.
func (l *account) denyBalance(v *version, now, cost int64, owed between, least int64) {
	full := v.burst * l.series.den
	up := func(n int64) int64 { n = max(n, 0); return max(n, min(n+min(cost, v.burst)*l.series.den, full)) }
	if l.bal.last > now {
		l.bal.hi = max(l.bal.hi, full)
		return
	}
	lo := up(owed.lo)
	if owed.hi >= full { // it may owe that much already, and then nothing is written
		lo = min(lo, least)
	}
	l.bal.lo, l.bal.hi, l.bal.last = lo, up(owed.hi), now
}

// denyRefill counts a denial. If that spends the burst, the next refill comes a window later.
func (l *account) denyRefill(v *version, now, cost int64) {
	l.missed = l.missed.at(v, now)
	if l.missed.missing+cost < v.burst {
		l.missed.missing += cost
		return
	}
	l.missed = refills{max(l.missed.missing, v.burst), now}
}

// wait moves the frontier to the instant of a reservation.
func (l *account) wait(at int64, own bool, now int64) {
	if at <= now {
		return
	}
	l.waited = true
	l.front.hi = max(l.front.hi, at)
	if own {
		l.front.lo = max(l.front.lo, at)
	}
}

// prune forgets units that no rule needs any more.
func (l *account) prune(now int64) {
	if len(l.units) < 32 {
		return
	}
	keep := now - 3*l.series.longest
	if l.env.fast != nil && l.severalForms() { // a balance may depend on all units since it was last zero
		if slow, _ := l.rates(nil); slow != nil && l.units.fold(slow, keep) > 0 {
			return
		}
	}
	if l.env.fast != nil && !l.severalForms() {
		if slow, fast := l.rates(nil); l.env.fast.kind == bucketKind && l.bal.at(now, slow, fast) != (between{}) {
			return
		}
		if l.env.fast.kind == warmKind && l.warm.owed(l.env.fast, now) > 0 {
			return
		}
		keep = now - 1
	}
	for _, v := range l.series.versions {
		if v.kind == firstKind { // every window depends on the end of the previous one
			return
		}
	}
	i := 0
	for i < len(l.units) && l.units[i].at <= keep {
		i++
	}
	l.units = append(l.units[:0], l.units[i:]...)
}

// giveBack returns how many units a refund of want units may give back. Its receipt is of step
// and of the instant at, and still counts held units.
func (l *account) giveBack(v *version, step int, now, at, held, want int64) between {
	if want = min(want, l.recorded(step)); want == 0 {
		return between{}
	}
	if l.loose || l.manyForms(v) {
		l.back = between{0, want * l.series.den}
		return between{0, want}
	}
	switch v.kind {
	case bucketKind:
		return l.bucketBack(v, step, now, at, held, want)
	case refillKind:
		// No more than is missing; units refilled since are not given back.
		passed := (now - at) / v.window
		most := min(want, max(held-passed*v.quota, 0))
		if !l.manyVersions(v) {
			most = min(most, l.missed.at(v, now).missing)
		}
		return between{0, most}
	case warmKind:
		return l.warmBack(v, now, at, held, want)
	case firstKind:
		return between{0, want}
	default:
		return l.windowBack(v, max(now, l.front.hi), at, want)
	}
}

// recorded returns the most units of a step that still count.
func (l *account) recorded(step int) (n int64) {
	for i := range l.units {
		if u := &l.units[i]; u.step == step && !u.denied {
			n += u.most
		}
	}
	return n
}

// windowBack returns exactly the units that the cell of the receipt still counts; for a
// histogram at most those of its entry, and none once the receipt is a window old.
func (l *account) windowBack(v *version, now, at, want int64) between {
	counts := at > now-v.window
	switch v.kind {
	case fixedKind:
		counts = cell(at, v.window) >= cell(now, v.window)
	case counterKind:
		counts = cell(at, v.sub) >= cell(now, v.sub)-v.parts
	default: // a log and a histogram
	}
	switch {
	case !counts && l.front.lo == l.front.hi:
		return between{}
	case v.kind == histogramKind || l.front.lo != l.front.hi || l.unsure:
		return between{0, want}
	default:
		return exactly(want)
	}
}

// bucketBack applies rules.md 3 to an exact balance: back = min(owed, h−k, max(0, h −
// rate·(max(now, F) − at))), and never so much that less is owed than if the units had never
// been taken. A part of a unit is reported as a whole unit. The result is exact under one
// version, without a reservation or a queue.
func (l *account) bucketBack(v *version, step int, now, at, held, want int64) between {
	den := v.series.den
	slow, _ := l.rates(v)
	owed := l.owed(v, now)
	least, most := slow.drained(max(now, l.bal.last) - at)
	due := max(now, l.bal.last)
	if owed.lo < 0 || owed.hi < 0 {
		return l.creditBack(v, owed, want)
	}
	back := between{
		min(want*den, owed.lo, held*den-most),
		min(want*den, max(l.owed(v, due).hi-l.without(step, want, due), 0)),
	}
	if l.mostCredit() > 0 { // the bound's bucket does not record units paid by credit
		back.lo, back.hi = 0, min(want*den, owed.hi)
	}
	if !v.queues { // units of a queue may count from their due instant
		back.hi = min(back.hi, owed.hi, held*den-least)
	}
	if v.queues || l.manyVersions(v) || l.waited || v.deficit > 0 || owed.lo != owed.hi {
		back.lo = 0
	}
	l.back = between{max(back.lo, 0), max(back.hi, 0)}
	return between{ceilDiv(l.back.lo, den), ceilDiv(l.back.hi, den)}
}

// refund records a refund of a step: back is the number of units that the store gave back, as
// far as it is known, and want the number requested.
func (l *account) refund(v *version, step int, now int64, back between, want int64) {
	if back.hi == 0 {
		return
	}
	if l.manyForms(v) { // another form may have given back all units
		back = between{0, want}
		l.back = between{0, want * l.series.den}
	}
	l.refunded = true
	for _, u := range l.used {
		l.loose = l.loose || u.kind == firstKind // whether an emptied window stays open is not stated
	}
	whole := back.lo
	if v.drainsEvenly() {
		whole-- // a part of the last unit may still count
	}
	for i := range l.units {
		u := &l.units[i]
		if u.step != step || u.denied {
			continue
		}
		u.n, u.most = max(u.n-back.hi, 0), max(u.most-max(whole, 0), 0)
		l.unsure = l.unsure || u.n != u.most
		l.env.grow(l)
	}
	if v.kind == refillKind {
		l.missed = l.missed.at(v, now)
		l.missed.missing = max(l.missed.missing-back.hi, 0)
		l.loose = l.loose || back.lo != back.hi
	}
	if v.kind == warmKind {
		l.loose = l.loose || back.lo != back.hi || back.hi != v.unitsOf(l.warm.back)
		l.warm = l.warm.less(v, now)
	}
	l.bal.less(l, v, now, back)
	if l.front.hi > now {
		// Whether the frontier moves back to the previous reservation is stated only for the
		// last one.
		l.front.lo = now
	}
}

// least returns the least debt if the last request wrote nothing, as the next request may be
// under a faster version.
func (l *account) least(v *version, now int64) int64 {
	slow, fast := l.rates(v)
	for _, u := range v.series.versions {
		if u.kind == bucketKind && u.faster(fast) {
			fast = u
		}
	}
	return l.bal.at(now, slow, fast).lo
}

// less removes units from the balance.
func (b *balance) less(l *account, v *version, now int64, units between) {
	if v.kind != bucketKind {
		return
	}
	den := l.series.den
	// Perhaps only a part of the last reported unit was given back.
	least := max(l.back.lo, min((units.lo-1)*den+1, units.lo*den), 0)
	most := max(min(l.back.hi, units.hi*den), least)
	if b.last > now { // a balance ahead of now keeps its instant
		b.lo, b.hi = b.lo-most, b.hi-least
		return
	}
	o := l.owed(v, now)
	o.lo = min(o.lo, l.least(v, now)) // a refund of nothing need not be a write
	if o.hi < 0 || o.lo < 0 {
		b.lo, b.hi = l.intoCredit(now, least, most)
		return
	}
	b.lo, b.hi, b.last = max(o.lo-most, 0), max(o.hi-least, 0), now
}
