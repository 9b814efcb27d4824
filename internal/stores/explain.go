// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice"
)

// ErrNoExplanation is the error of a Store that is no [sluice.ExplainStore].
var ErrNoExplanation = errors.New("sluice: the store cannot explain its decisions; use or wrap one that can")

// ValidateExplain returns nil, or a [*sluice.RequestError] for a request that cannot be
// explained.
func ValidateExplain(r *sluice.Request) error {
	switch {
	case r.Op != sluice.OpTake && r.Op != sluice.OpPeek && r.Op != sluice.OpReserve:
		return &sluice.RequestError{Field: "Op", Problem: fmt.Sprintf("%v cannot be explained; a take, a peek and a reservation can", r.Op)}
	case r.Slot != nil:
		return &sluice.RequestError{Field: "Slot", Problem: "is explained separately; call ExplainSlot"}
	}
	return r.Validate()
}

// ValidateExplainSlot returns nil, or a [*sluice.RequestError] for a slot request that cannot
// be explained.
func ValidateExplainSlot(r *sluice.SlotRequest) error {
	if r.Op != sluice.SlotAcquire && r.Op != sluice.SlotPeek {
		return &sluice.RequestError{Field: "Op", Problem: fmt.Sprintf("slot operation %d cannot be explained; an acquire can", r.Op)}
	}
	return r.Validate()
}

// Explain calls Explain of a wrapped store. It returns [ErrNoExplanation] if the store is no
// [sluice.ExplainStore].
func Explain(ctx context.Context, store sluice.Store, req sluice.Request) (sluice.Explanation, error) {
	if s, ok := store.(sluice.ExplainStore); ok {
		return s.Explain(ctx, req)
	}
	return sluice.Explanation{}, ErrNoExplanation
}

// ExplainSlot calls ExplainSlot of a wrapped store. It returns [ErrNoExplanation] if the store
// is no [sluice.ExplainStore].
func ExplainSlot(ctx context.Context, store sluice.Store, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s, ok := store.(sluice.ExplainStore); ok {
		return s.ExplainSlot(ctx, req)
	}
	return sluice.SlotDecision{}, ErrNoExplanation
}
