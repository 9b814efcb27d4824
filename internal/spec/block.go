// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import "github.com/sluicegate/sluice"

// blocking is the state of a key under the blocks of one name.
type blocking struct {
	denials []int64 // in the window that the first of them opened
	end     int64   // end of the longest window in which a denial counted
	until   int64   // the key is blocked before this instant
	unsure  bool    // it is not known whether a denial counted
}

// at forgets the denials of a window that has ended.
func (b *blocking) at(now int64) {
	if now >= b.end {
		b.denials = nil
	}
}

// fits returns when the block of a key ends.
func (b *blocking) fits(now int64) between {
	if b.unsure {
		return between{now, never}
	}
	return exactly(max(now, b.until))
}

func (b *blocking) remaining(v *version, now int64) between {
	switch {
	case b.unsure:
		return between{0, v.full()}
	case now < b.until:
		return between{}
	default:
		return exactly(v.full())
	}
}

func (b *blocking) reset(now int64) between {
	if b.unsure {
		return between{0, never}
	}
	if b.at(now); now < b.until {
		return exactly(b.until - now)
	} else if len(b.denials) > 0 {
		return exactly(b.end - now)
	}
	return between{}
}

// deny counts a denial under v: in the window that is open, or in a new one.
func (b *blocking) deny(v *version, now int64) {
	if b.at(now); len(b.denials) > 0 && now-b.denials[0] >= v.window {
		*b = blocking{unsure: b.unsure}
	}
	b.denials = append(b.denials, now)
	if b.end = max(b.end, b.denials[0]+v.window); int64(len(b.denials)) >= v.quota {
		*b = blocking{until: now + v.length, unsure: b.unsure}
	}
}

// countDenial counts a denied request under the blocks of each charge in which another limit
// denies, unless one of the blocks denies already.
func (j *checker) countDenial(req *sluice.Request) {
	items, reported := j.items, req.Outcomes.All()
	for _, p := range j.current {
		n := len(j.world.terms[p.Plan])
		var out []sluice.Outcome
		if reported != nil {
			out, reported = reported[:n], reported[n:]
		}
		j.countDenialOf(items[:n], out)
		items = items[n:]
	}
}

func (j *checker) countDenialOf(items []item, out []sluice.Outcome) {
	denies, perhaps, blocked := false, false, false
	for i := range items {
		it := &items[i]
		if it.v.kind == blockKind {
			blocked = blocked || it.fits.lo > j.now
			perhaps = perhaps || it.l.blocking.unsure
			continue
		}
		lo, hi := it.fits.lo, it.fits.hi
		if out != nil && lo <= j.now && j.now < hi { // the store's outcome shows whether it fits
			if lo = j.now; !out[i].Allowed {
				lo = hi
			}
			hi = lo
		}
		denies, perhaps = denies || lo > j.now, perhaps || lo <= j.now && hi > j.now
	}
	for i := range items {
		it := &items[i]
		switch b := &it.l.blocking; {
		case it.v.kind != blockKind || blocked:
		case denies:
			b.deny(it.v, j.now)
			it.fits = b.fits(j.now)
		case perhaps:
			b.unsure = true
			it.fits = b.fits(j.now)
		}
	}
}
