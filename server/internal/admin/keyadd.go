// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/keys"
)

// Add is the document of POST /v1/key/add: give a key units. It names one key of one
// rule, and applies to the limits that the key has now.
type Add struct {
	keys.Key
	Units int64 `json:"units"`
	Change
}

// AddDone is the answer of POST /v1/key/add.
type AddDone struct {
	Key   KeyState `json:"key"` // without limits
	Given []Given  `json:"given"`
	// ThisNodeOnly and NotTold are as in [ResetDone].
	ThisNodeOnly bool   `json:"this_node_only"`
	NotTold      string `json:"not_told,omitempty"`
}

// Given is what an add gave under one limit.
type Given struct {
	Limit     sluice.Limit `json:"limit"`
	Given     int64        `json:"given"`     // units: spent ones given back, and credit
	Remaining int64        `json:"remaining"` // units left now
}

func (a *API) addToKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	var q Add
	if err := asked(r, &q); err != nil {
		return nil, err
	}
	t, err := a.addTarget(&q)
	if err != nil {
		return nil, err
	}
	now := a.o.Now()
	tier := t.Tiers(now)[0]
	o, _ := t.Override(now)
	switch tiers := t.Level.Tiers; {
	case t.Set(tier, now) == nil:
		err = errors.New("the key has no limits there, so there is nothing to add to")
	case tiers != nil && !t.HasTier && o == nil:
		err = fmt.Errorf("the key's limits are those of its tier; name that, too: %s=TIER", tiers.By)
	}
	if err != nil {
		return nil, err
	}
	done := AddDone{Key: describe(t), ThisNodeOnly: !a.o.Shared}
	e := audit.Entry{Action: "add", Author: q.Author, Reason: q.Reason, Detail: map[string]any{"key": done.Key, "units": q.Units}}
	ctx := r.Context()
	err = a.change(r, e, func(e *audit.Entry) (told bool, err error) {
		if done.Given, err = a.add(ctx, t, tier, q.Units); err != nil {
			return false, err
		}
		if err := a.o.Audit.Tell(ctx, *e); err != nil {
			done.NotTold = err.Error()
		}
		return true, nil
	})
	if err != nil {
		return nil, failed(http.StatusServiceUnavailable, err)
	}
	return done, nil
}

// addTarget returns the one key that the document names.
func (a *API) addTarget(q *Add) (*keys.Target, error) {
	if q.Units < 1 || q.Units > sluice.MaxQuota {
		return nil, fmt.Errorf("%d units; must be 1 to %d", q.Units, int64(sluice.MaxQuota))
	}
	targets, omitted, err := a.targets(&q.Key)
	switch {
	case err != nil:
		return nil, err
	case omitted || len(targets) != 1:
		return nil, errors.New("several rules, or levels of one, have such a key; name one, as units are given once")
	}
	return &targets[0], nil
}

// add gives units to a key under the limits of a tier.
func (a *API) add(ctx context.Context, t *keys.Target, tier string, units int64) ([]Given, error) {
	s := t.Set(tier, a.o.Now())
	if s == nil { // its override has expired meanwhile
		return nil, errChanged
	}
	charge := t.Charge(s)
	charge.Cost = units
	out := make(sluice.Outcomes, charge.Plan.Len())
	if _, err := a.o.Store.Take(ctx, sluice.Request{Op: sluice.OpAdd, Charge: charge, Outcomes: &out}); err != nil {
		return nil, err
	}
	given := make([]Given, 0, len(out))
	for i, o := range out {
		if term := charge.Plan.Term(i); term.Block.For == 0 { // a block has no units
			given = append(given, Given{Limit: term.Limit, Given: -o.Spent, Remaining: o.Remaining})
		}
	}
	return given, nil
}
