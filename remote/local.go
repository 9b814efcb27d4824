// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// local decides in this process under shares of limits.
type local struct {
	store  sluice.Store     // nil if there is none
	slots  sluice.SlotStore // the same
	used   atomic.Bool      // whether it may hold states
	nodes  func() int
	shares *compiled.Prepared[share]
}

// share is a plan of one node's shares, one of so many.
type share struct {
	nodes int
	plan  *sluice.Plan
}

// can reports whether p lets anything be decided.
func (l *local) can(p sluice.Failure) bool {
	return p == sluice.FailOpen || p == sluice.FailLocal && l.store != nil
}

// share returns the plan of this node's shares.
func (l *local) share(p *sluice.Plan) (*sluice.Plan, error) {
	nodes := clampNodes(l.nodes())
	if s, ok := l.shares.Of(p.Compiled()); ok && s.nodes == nodes {
		return s.plan, nil
	}
	limits := make([]sluice.Limit, p.Len())
	for i := range limits {
		limits[i] = Share(p.Term(i).Limit, nodes)
	}
	s, err := sluice.Compile(p.Scope(), limits...)
	if err != nil {
		return nil, fmt.Errorf("remote: share of %q among %d nodes: %w", p.Scope(), nodes, err)
	}
	l.shares.Keep(p.Compiled(), share{nodes, s})
	return s, nil
}

// take decides req, whose receipt is this store's or none.
func (l *local) take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	l.used.Store(true)
	req, err := l.shared(req)
	if err != nil {
		return sluice.Decision{}, err
	}
	req.At, req.Due = req.At&^marks, req.Due&^marks
	return l.store.Take(context.WithoutCancel(ctx), req) // whose end is no reason not to decide
}

// shared returns req under this node's shares.
func (l *local) shared(req sluice.Request) (sluice.Request, error) {
	req.More = slices.Clone(req.More)
	for i := range req.Charges() {
		part, err := l.share(req.Nth(i).Plan)
		if err != nil {
			return req, err
		}
		req.Nth(i).Plan = part
	}
	return req, nil
}
