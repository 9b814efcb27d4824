// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"context"
	"testing"

	"github.com/sluicegate/sluice"
)

// Explained is a store that explains each request before it decides it. It fails the test if
// the two differ, or if the explanation has changed the store.
type Explained struct {
	Store
	T testing.TB
	// State returns the whole content of the store, in its stored form.
	State func() string
	Count int // number of explained requests
}

// Take explains and decides.
func (s *Explained) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if req.Op != sluice.OpTake && req.Op != sluice.OpPeek && req.Op != sluice.OpReserve || req.Validate() != nil {
		return s.Store.Take(ctx, req)
	}
	s.T.Helper()
	before := s.State()
	e, err := s.Store.(sluice.ExplainStore).Explain(ctx, req)
	if err != nil {
		s.T.Fatalf("explain %v: %v", req.Op, err)
	}
	if s.State() != before {
		s.T.Fatalf("to explain %v of %d under %v has changed the store", req.Op, req.Cost, req.Plan.Term(0).Limit)
	}
	s.Count++
	room := make(sluice.Outcomes, req.Limits())
	if req.Outcomes == nil && s.Count%2 == 0 { // every other request takes the store's shortest path
		req.Outcomes = &room
	}
	d, err := s.Store.Take(ctx, req)
	if err != nil {
		return d, err
	}
	if e.Decision != d {
		s.T.Fatalf("%v of %d under %v, explained:\n%+v\nand then decided:\n%+v", req.Op, req.Cost, req.Plan.Term(0).Limit, e.Decision, d)
	}
	for i, o := range req.Outcomes.All() {
		if i == len(e.Limits) {
			break // Outcomes has more room than limits
		}
		if r := &e.Limits[i]; r.Outcome != o {
			s.T.Fatalf("%v of %d under %v, explained:\n%+v\nand then decided:\n%+v", req.Op, req.Cost, r.Limit, r.Outcome, o)
		}
	}
	return d, nil
}
