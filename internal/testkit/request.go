// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"

	"github.com/sluicegate/sluice"
)

// TB is a test of package testing or rapid.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Plan returns the plan of limits given as texts, such as "10/min sliding-log".
func Plan(t TB, scope string, texts ...string) *sluice.Plan {
	t.Helper()
	return Compile(t, scope, parse(t, texts)...)
}

// Limiter returns a limiter of limits given as texts.
func Limiter(t TB, store sluice.Store, scope string, texts ...string) *sluice.Limiter {
	t.Helper()
	lim, err := sluice.New(store, scope, parse(t, texts)...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return lim
}

func parse(t TB, texts []string) []sluice.Limit {
	t.Helper()
	limits := make([]sluice.Limit, len(texts))
	for i, text := range texts {
		var err error
		if limits[i], err = sluice.ParseLimit(text); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return limits
}

// Compile returns the plan of limits.
func Compile(t TB, scope string, limits ...sluice.Limit) *sluice.Plan {
	t.Helper()
	p, err := sluice.Compile(scope, limits...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// Request returns the request to take cost units of a key.
func Request(p *sluice.Plan, key string, cost int64) sluice.Request {
	return sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}}
}

// Take returns the store's decision. An error ends the test.
func Take(t TB, s sluice.Store, req sluice.Request) sluice.Decision {
	t.Helper()
	d, err := s.Take(context.Background(), req)
	if err != nil {
		t.Fatalf("%v %d of %q: %v", req.Op, req.Cost, req.Key, err)
	}
	return d
}

// Spent returns the whole units that a key has spent under the first limit of a plan.
func Spent(t TB, s sluice.Store, p *sluice.Plan, key string) int64 {
	t.Helper()
	peek := Request(p, key, 0)
	peek.Op = sluice.OpPeek
	return p.Term(0).Full - Take(t, s, peek).Remaining
}
