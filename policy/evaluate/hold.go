// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/sluicegate/sluice"
)

// The units that a request is charged on arrival are held if one of its rules has HoldFor: all
// units of that call of the store, under one random id, which the settlement names.

// holdOf returns the hold of an ask that is about to be taken, nil if none of its rules holds.
func (v *Verdict) holdOf(k *ask) *sluice.Hold {
	v.hold = sluice.Hold{}
	for j := k.first; j < k.first+k.n; j++ {
		c := &v.charges[j]
		v.hold.TTL = max(v.hold.TTL, c.level.rule.HoldFor)
		v.extra(j).held = c.Cost
	}
	if v.hold.TTL == 0 {
		return nil
	}
	k.held, v.hold.ID = true, rand.Text()
	return &v.hold
}

// heldRequest returns the request by which a held ask was taken.
func (v *Verdict) heldRequest(k *ask) *sluice.Request {
	var req sluice.Request
	v.request(&req, k, sluice.OpRefund)
	req.Op, req.Hold, req.More = sluice.OpTake, &v.hold, slices.Clone(req.More)
	return &req
}

// settlement returns the request that settles a held ask with its actual costs. Units charged
// beside the hold, for a body while it was read, count by themselves.
func (v *Verdict) settlement(k *ask) sluice.Request {
	req := v.heldRequest(k)
	req.Op, req.At = sluice.OpSettle, k.result.Decision.At
	for n := range req.Charges() {
		c, j := req.Nth(n), k.first+n
		of := v.extra(j)
		c.Counted, c.Cost = of.held, max(of.actual-(v.charges[j].Cost-of.held), 0)
	}
	return *req
}

// again repeats a settlement whose outcome is not known. It returns the error of the last attempt.
func (v *Verdict) again(ctx context.Context, req *sluice.Request, err error) error {
	if err == nil || req.Op != sluice.OpSettle {
		return err
	}
	req.Hold.Retry = true
	_, err = v.evaluator.opts.Store.Take(ctx, *req)
	return err
}
