// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// local decides in this process under shares of limits.
type local struct {
	store *memstore.Store
	nodes func() int
	mu    sync.Mutex
	known int // nodes that the plans are for
	plans map[*sluice.Plan]*sluice.Plan
}

// manyPlans is how many shares are kept: policies change while the store is
// away, and what they no longer use is not missed.
const manyPlans = 4096

// share returns the plan of this node's shares.
func (l *local) share(p *sluice.Plan) (*sluice.Plan, error) {
	nodes := clampNodes(l.nodes())
	l.mu.Lock()
	defer l.mu.Unlock()
	if nodes != l.known || len(l.plans) >= manyPlans {
		l.known, l.plans = nodes, nil
	}
	if s, ok := l.plans[p]; ok {
		return s, nil
	}
	limits := make([]sluice.Limit, p.Len())
	for i := range limits {
		limits[i] = Share(p.Term(i).Limit, nodes)
	}
	s, err := sluice.Compile(p.Scope(), limits...)
	if err != nil {
		return nil, fmt.Errorf("failure: share of %q among %d nodes: %w", p.Scope(), nodes, err)
	}
	if l.plans == nil {
		l.plans = make(map[*sluice.Plan]*sluice.Plan)
	}
	l.plans[p] = s
	return s, nil
}

// take decides req, whose receipt is this store's or none.
func (l *local) take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	var err error
	if req.Plan, err = l.share(req.Plan); err != nil {
		return sluice.Decision{}, err
	}
	more := req.More
	req.More = make([]sluice.Charge, len(more))
	for i, c := range more {
		if c.Plan, err = l.share(c.Plan); err != nil {
			return sluice.Decision{}, err
		}
		req.More[i] = c
	}
	req.At, req.Due = req.At&^marks, req.Due&^marks
	return l.store.Take(ctx, req) // which does not look at ctx
}
