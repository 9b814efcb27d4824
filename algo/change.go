// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice"
)

// BoundOfChange returns the most units that limits of one scope and name admit
// together in any span (t, t+d] in which one replaces the other, in whatever
// turn and however often, beside what is added or converted. Buckets share one balance: the bound is that of the
// least bucket that contains them all, which is the largest of them if that
// contains the others. Windows that differ in quota share their counts: the
// bound is that of the largest quota. What has another window or algorithm adds
// its own bound. Limits that are not valid count nothing.
func BoundOfChange(d time.Duration, limits ...sluice.Limit) int64 {
	var forms []*union
	for _, l := range limits {
		t, err := sluice.CompileLimit("bound", l)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(forms, func(u *union) bool { return SameForm(u.terms[0], t) })
		if i < 0 {
			i, forms = len(forms), append(forms, &union{})
		}
		forms[i].terms = append(forms[i].terms, t)
	}
	var sum int64
	for _, u := range forms {
		sum = add(sum, u.bound(d))
	}
	return sum
}

// union is limits that share a state.
type union struct{ terms []*sluice.Term }

func (u *union) bound(d time.Duration) int64 {
	var quota, burst, debt, credit, refilled int64
	for _, t := range u.terms {
		quota, burst, debt, credit = max(quota, t.Quota), max(burst, t.Burst), max(debt, t.Debt), max(credit, t.Credit)
		refilled = max(refilled, mulDiv(d.Microseconds(), t.Quota, t.Micros))
	}
	if continuous(u.terms[0]) {
		return add(add(burst, debt), add(credit, refilled))
	}
	var most int64
	for _, t := range u.terms { // of a counter's variants the loosest
		l := t.Limit
		l.Quota, l.Debt = quota, debt
		if l.Burst > 0 {
			l.Burst = burst
		}
		if l.Validate() == nil {
			most = max(most, Bound(l, d))
		} else {
			most = max(most, times(add(quota, debt), 2*(ceilDiv(d.Microseconds(), t.Micros)+1)))
		}
	}
	return most
}
