// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "context"

// Explanation is what would come of a [Request], and why.
type Explanation struct {
	Decision Decision
	// Limits are the reasons of all limits, counted as in Request.Outcomes.
	Limits []Reason
}

// Reason is what one limit would say of a [Request], with its arithmetic.
type Reason struct {
	Limit Limit `json:"limit"` // with every default filled in
	Cost  int64 `json:"cost"`  // units
	// Room is the largest cost that fits now, whatever other limits say.
	Room int64 `json:"room"`
	Outcome
	// Held says in words what is held and until when the next hold ends, "" for nothing.
	Held string `json:"held,omitempty"`
	// Lines are the arithmetic in words, in the order in which it is done; the last
	// says the outcome.
	Lines []string `json:"lines"`
	// Changes are what would make the limit allow the cost now, each by itself: a
	// smaller cost, or the least quota or burst that has room. There are none if it
	// allows it, and none that [Limit.Validate] refuses.
	Changes []string `json:"changes,omitempty"`
}

// ExplainStore is a [Store] that can say why it decides as it does.
type ExplainStore interface {
	Store
	// Explain returns what Take would decide now. Nothing changes by it: no unit or
	// denial is counted, and nothing is noted of a key or limit. The operation is
	// OpTake, OpPeek or OpReserve, and there is no Slot; Outcomes are not used. Its
	// error is as Take's, and nothing is ever spent.
	Explain(ctx context.Context, req Request) (Explanation, error)
	// ExplainSlot returns what Slot would decide of an acquire, and changes nothing.
	ExplainSlot(ctx context.Context, req SlotRequest) (SlotDecision, error)
}
