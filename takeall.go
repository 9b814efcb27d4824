// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
)

// JointDecision is a decision on charges to several keys, with the limit that binds: it
// denied for longest, or has the least left in relation to its cost.
type JointDecision struct {
	Decision
	Scope string // of the limit that binds
	Key   string // that it was charged to
	Limit Limit  // with every default filled in
}

// TakeAll spends all charges, or none if a limit of one of them has too little:
//
//	d, err := sluice.TakeAll(ctx, store, users.Of(user, 1), addresses.Of(ip, 1))
//
// There are 1 to [MaxCharges], each of another scope or key. The store must be that of
// the Limiters. Errors are those of [Store], and it blocks as long as the store does.
func TakeAll(ctx context.Context, store Store, charges ...Charge) (JointDecision, error) {
	switch {
	case store == nil:
		return JointDecision{}, errors.New("sluice: take all: store is nil")
	case len(charges) == 0:
		return JointDecision{}, &RequestError{"Charge", "there is none; pass at least one, such as limiter.Of(key, 1)"}
	}
	req := Request{Charge: charges[0], More: charges[1:]}
	d, err := store.Take(ctx, req)
	if err != nil {
		return JointDecision{Decision: d}, err
	}
	c, i := req.ChargeAt(d.Binding)
	return JointDecision{Decision: d, Scope: c.Plan.Scope(), Key: c.Key, Limit: c.Plan.terms[i].Limit}, nil
}
