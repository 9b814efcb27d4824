// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package stores has code that the stores and wrappers of this module share. It imports only
// package sluice; a store of another module does not need it.
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

// Slot calls Slot of a wrapped store. It returns [sluice.ErrNoSlots] if the store is no
// [sluice.SlotStore].
func Slot(ctx context.Context, store sluice.Store, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s, ok := store.(sluice.SlotStore); ok {
		return s.Slot(ctx, req)
	}
	return sluice.SlotDecision{}, sluice.ErrNoSlots
}

// Denies reports whether s is a slot that has denied its request.
func Denies(s *sluice.Slot) bool { return s != nil && s.Decision.RetryAfter > 0 }

// Clone returns r with a More, Outcomes, Hold and Slot of its own, for a store that continues
// with it after its caller has left.
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
