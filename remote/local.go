// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// local decides in this process under a node's shares of limits.
type local struct {
	store  sluice.Store     // nil if there is none
	slots  sluice.SlotStore // the same
	used   atomic.Bool      // it may hold states
	nodes  func() int
	shares *compiled.Prepared[share]
}

// share is a plan of a node's shares of limits, for a number of nodes.
type share struct {
	nodes int
	plan  *sluice.Plan
}

// can reports whether requests can be decided under p.
func (l *local) can(p sluice.Failure) bool {
	return p == sluice.FailOpen || p == sluice.FailLocal && l.store != nil
}

// share returns the plan of one node's shares among nodes.
func (l *local) share(p *sluice.Plan, nodes int) (*sluice.Plan, error) {
	if s, ok := l.shares.Of(&p.Kept); ok && s.nodes == nodes {
		return s.plan, nil
	}
	limits := make([]sluice.Limit, p.Len())
	for i := range limits {
		limits[i] = p.Term(i).Limit.Share(nodes)
	}
	s, err := sluice.Compile(p.Scope(), limits...)
	if err != nil {
		return nil, fmt.Errorf("remote: share of %q among %d nodes: %w", p.Scope(), nodes, err)
	}
	l.shares.Keep(&p.Kept, share{nodes, s})
	return s, nil
}

// take decides req. Its receipt, if it has one, is of this process.
func (l *local) take(ctx context.Context, req sluice.Request) (d sluice.Decision, err error) {
	l.used.Store(true)
	part, nodes, err := l.shared(req)
	if err != nil {
		return d, err
	}
	part.At, part.Due = req.At&^marks, req.Due&^marks
	d, err = l.store.Take(context.WithoutCancel(ctx), part) // it decides even if ctx has ended
	if d.Nodes = int32(nodes); err == nil && d.TooLarge {
		err = aboveShare(&req, nodes)
	}
	return d, err
}

// shared returns req under this node's shares, and the number of nodes.
func (l *local) shared(req sluice.Request) (part sluice.Request, nodes int, err error) {
	nodes = min(max(l.nodes(), 1), bounds.MaxNodes)
	req.More = slices.Clone(req.More)
	for i := range req.Charges() {
		if req.Nth(i).Plan, err = l.share(req.Nth(i).Plan, nodes); err != nil {
			return req, nodes, err
		}
	}
	return req, nodes, nil
}

// aboveShare returns an error for a request that fits no share, but may pass on the store's
// return; nil if its limits cannot hold it either.
func aboveShare(req *sluice.Request, nodes int) error {
	for i := range req.Charges() {
		c := req.Nth(i)
		for j := range c.Plan.Len() {
			if t := c.Plan.Term(j); c.Cost > t.Full+t.Credit {
				return nil
			}
		}
	}
	return costError(req.Cost, nodes)
}

// costError returns the error of a cost above a share that is not above its limit.
func costError(cost int64, nodes int) error {
	return &sluice.RequestError{Field: "Cost", Problem: fmt.Sprintf("%d is more than the share of one of %d nodes", cost, nodes)}
}
