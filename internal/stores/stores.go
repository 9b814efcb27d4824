// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package stores is what the stores of this module, and those that wrap one, have in
// common beyond what package sluice says of them: it is built on that alone, and a
// store of another module needs none of it.
package stores

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicegate/sluice"
)

// ValidateBatch returns nil or a [*sluice.RequestError] if out is not as long as reqs.
func ValidateBatch(reqs []sluice.Request, out []sluice.Result) error {
	if len(out) != len(reqs) {
		return &sluice.RequestError{Field: "Results", Problem: fmt.Sprintf("room for %d of %d requests", len(out), len(reqs))}
	}
	return nil
}

// Slot asks the store behind a wrapper, which must be a [sluice.SlotStore].
func Slot(ctx context.Context, store sluice.Store, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s, ok := store.(sluice.SlotStore); ok {
		return s.Slot(ctx, req)
	}
	return sluice.SlotDecision{}, sluice.ErrNoSlots
}

// Denies reports whether s is a slot that has denied its request.
func Denies(s *sluice.Slot) bool { return s != nil && s.Decision.RetryAfter > 0 }

// Clone returns r with a More, Outcomes, Hold and Slot of its own: for a store that goes
// on with it when its caller may have left.
func Clone(r *sluice.Request) sluice.Request {
	c := *r
	c.More = slices.Clone(r.More)
	if r.Outcomes != nil {
		c.Outcomes = new(slices.Clone(*r.Outcomes))
	}
	if r.Hold != nil {
		c.Hold = new(*r.Hold)
	}
	if r.Slot != nil {
		c.Slot = new(*r.Slot)
	}
	return c
}

// Fill copies what from, a clone of r, has received into r's Outcomes and Slot.
func Fill(r, from *sluice.Request) {
	copy(r.Outcomes.All(), from.Outcomes.All())
	if r.Slot != nil {
		r.Slot.Decision = from.Slot.Decision
	}
}
