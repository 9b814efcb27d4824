// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"

	"github.com/sluicegate/sluice"
)

// stepBack checks ADR 63: a key that had a unit left when the clock stepped back waits no
// longer than a window, or until all that it may owe is paid. It only peeks, as a take that
// one limit denies may count under another. The sequence ends there: the accounts have one
// clock, which does not step back.
func (j *checker) stepBack(s *Step) (*sluice.Decision, error) {
	j.ended = true
	req := &sluice.Request{Op: sluice.OpPeek, Charge: j.charge(s.Plan, s.Key, 1)}
	before, err := j.ask(req)
	if err != nil {
		return nil, err
	}
	j.store.Set(max(j.now+s.Advance, 0))
	d, err := j.ask(req)
	if err != nil {
		return nil, err
	}
	if most := j.longestWait(s.Plan); before.Allowed && d.RetryAfter > micros(most) {
		return &d, fmt.Errorf("clock back: denied for %v, though a unit was left, want at most %v", d.RetryAfter, micros(most))
	}
	return &d, nil
}

// longestWait returns the longest wait of a key of a plan that had a unit left. With reserved
// units, or with other versions, it is longer by [sluice.MaxWait].
func (j *checker) longestWait(plan int) (most int64) {
	several := false
	for _, v := range j.world.terms[plan] {
		several = several || len(v.series.versions) > 1
		for _, u := range v.series.versions {
			most = max(most, u.longestWait())
		}
	}
	if several || j.waited {
		most += sluice.MaxWait.Microseconds()
	}
	return most
}

func (v *version) longestWait() int64 {
	switch v.kind {
	case bucketKind:
		return ceilDiv((v.burst+v.debt)*v.window, v.quota) + 1
	case warmKind:
		return ceilDiv((v.burst+v.debt)*v.window, v.quota) + 1 + v.form.warmUp/2
	case refillKind:
		return ceilDiv(v.burst+v.debt, v.quota) * v.window
	case counterKind:
		return ceilDiv(v.quota+v.debt, v.quota)*v.window + v.sub // as long as a key may wait without a step
	case blockKind:
		return v.length // a block that has ended may be in force again
	default:
		return v.window
	}
}
