// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "context"

// Explanation is the decision that a [Request] would get, with its reasons.
type Explanation struct {
	Decision Decision
	// Limits are the reasons of all limits, counted as in Request.Outcomes.
	Limits []Reason
}

// Reason is the result of one limit for a [Request], with its arithmetic.
type Reason struct {
	Limit Limit `json:"limit"` // with every default filled in
	Cost  int64 `json:"cost"`  // units
	// Room is the largest cost that fits now, whatever other limits say.
	Room int64 `json:"room"`
	Outcome
	// Held describes the open holds and the end of the next one. It is empty if there are
	// none.
	Held string `json:"held,omitempty"`
	// Lines describe the arithmetic step by step; the last states the outcome.
	Lines []string `json:"lines"`
	// Changes are alternatives under which the limit would allow the cost now: a smaller cost,
	// or the least quota or burst that has room. There are none if it allows the cost, and
	// none that [Limit.Validate] refuses.
	Changes []string `json:"changes,omitempty"`
}

// ExplainStore is a [Store] that can explain its decisions.
type ExplainStore interface {
	Store
	// Explain returns the decision that Take would make now. It changes nothing: it counts no
	// unit or denial and records no key or limit. The operation must be OpTake, OpPeek or
	// OpReserve, without a Slot; Outcomes is not used. The errors are those of Take, but
	// nothing is ever spent.
	Explain(ctx context.Context, req Request) (Explanation, error)
	// ExplainSlot returns the decision that Slot would make on an acquire, and changes
	// nothing.
	ExplainSlot(ctx context.Context, req SlotRequest) (SlotDecision, error)
}
