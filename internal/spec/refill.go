// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

// refills is the state of a bucket that gets Quota units back at once every Window, counted
// from the take that found it full, or whenever a Window of the clock starts: the units
// missing as of the instant grid.
type refills struct{ missing, grid int64 }

// at returns the units missing at now and the last instant of the grid.
func (r refills) at(v *version, now int64) refills {
	full := now // start of the grid of the first unit
	if v.form.clock {
		full = cell(now, v.window) * v.window
	}
	if r.missing == 0 || now < r.grid {
		return refills{r.missing, full}
	}
	passed := (now - r.grid) / v.window
	if passed >= ceilDiv(r.missing, v.quota) {
		return refills{0, full}
	}
	return refills{r.missing - passed*v.quota, r.grid + passed*v.window}
}

// fits returns the first instant at which no more than burst−cost are missing.
func (r refills) fits(v *version, now, cost int64) int64 {
	r = r.at(v, now)
	n := ceilDiv(r.missing+cost-v.burst, v.quota)
	if n == 0 {
		return now
	}
	return r.grid + n*v.window
}

// reset returns the time until no unit is missing.
func (r refills) reset(v *version, now int64) int64 {
	r = r.at(v, now)
	if r.missing == 0 {
		return 0
	}
	return r.grid + ceilDiv(r.missing, v.quota)*v.window - now
}
