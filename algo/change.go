// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice"
)

// boundOfChange is [Bound] of several limits. Invalid ones count nothing.
func boundOfChange(d time.Duration, limits []sluice.Limit) int64 {
	var forms []*union
	for _, l := range limits {
		t, err := sluice.CompileLimit("bound", l)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(forms, func(u *union) bool { return u.terms[0].Form == t.Form })
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

// union is a set of limits that share a state.
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
	for _, t := range u.terms { // the loosest of a counter's variants
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
