// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/keys"
	"github.com/sluicegate/sluice/server/internal/overrides"
)

// Override is the document of PUT and DELETE /v1/override. DELETE leaves out Limits
// and Expires.
type Override struct {
	keys.Key
	Limits  []string  `json:"limits,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Change
	// ThisNode makes the change on this node only, even if others share its store.
	ThisNode bool `json:"this_node,omitempty"`
	// Version, if not empty, is the version of the override that the caller has seen. If
	// the override has another version by now, nothing changes.
	Version string `json:"version,omitempty"`
}

// OverrideDone is the answer of PUT and DELETE /v1/override.
type OverrideDone struct {
	Key KeyState `json:"key"` // the present state; without limits if the rules have no such key
	// ThisNodeOnly reports that the change has no effect on other nodes: the store is in
	// this process, or the request asked for that.
	ThisNodeOnly bool `json:"this_node_only"`
	// Version is the version of the change, which is active on all nodes within two
	// seconds; empty if the change is on this node only.
	Version string `json:"version,omitempty"`
	// Replaced is the override that was active for the key before.
	Replaced *overrides.Stored `json:"replaced,omitempty"`
	// Problem is the reason why Key lacks its limits. The change was made nevertheless.
	Problem string `json:"problem,omitempty"`
}

// one returns the only key that k names under the active rules and overrides.
func (a *API) one(k *keys.Key) (keys.Target, error) { return k.One(a.o.Policy(), a.o.Overrides) }

func (q *Override) fault(now time.Time) error {
	faults := []error{q.Change.check()}
	if q.Reason == "" {
		faults = append(faults, errors.New("reason is missing: the audit log has it; give --reason"))
	}
	if len(q.Limits) == 0 {
		faults = append(faults, errors.New("limits are missing; use for example 1000/min"))
	}
	if len(q.Limits) > overrides.MaxLimits {
		faults = append(faults, fmt.Errorf("%d limits; at most %d have effect", len(q.Limits), overrides.MaxLimits))
	}
	if !q.Expires.IsZero() && !q.Expires.After(now) {
		faults = append(faults, fmt.Errorf("expires %s is over already; use a time in the future", q.Expires.Format(time.RFC3339)))
	}
	return errors.Join(faults...)
}

func (a *API) putOverride(_ http.ResponseWriter, r *http.Request) (any, error) {
	var q Override
	now := a.o.Now()
	err := read(r, &q)
	if err == nil {
		err = q.fault(now)
	}
	var t keys.Target
	if err == nil {
		t, err = a.one(&q.Key)
	}
	var limits []policy.Limit
	if err == nil {
		limits, err = overrides.ParseLimits(t.Level.Level, q.Limits)
	}
	if err != nil {
		return nil, err
	}
	o := overrides.Stored{
		Rule: t.Rule.Name, Level: t.Level.Name, Parts: keys.Named(t.Level.Level, t.Values), Added: now,
		Override: policy.Override{Key: t.Values, Limits: limits, Expires: q.Expires, Reason: q.Reason, Author: q.Author},
	}
	if err := overrides.Fits(a.o.Policy(), o); err != nil {
		return nil, a.change(r, audit.Entry{Action: "override", Author: q.Author, Reason: q.Reason, Detail: map[string]any{"override": o}},
			func(*audit.Entry) (bool, error) { return false, err })
	}
	return a.override(r, &q, &o, &t)
}

// setOverride changes an override, on this node or on all, and writes the change to the log.
func (a *API) setOverride(r *http.Request, q *Override, o *overrides.Stored) (*OverrideDone, error) {
	ctx := r.Context()
	own := o.Removed && a.o.Overrides.HasOwn(o) && !a.o.Overrides.HasShared(o, a.o.Now())
	done := &OverrideDone{ThisNodeOnly: q.ThisNode || own || !a.o.Overrides.Shared()}
	e := audit.Entry{Action: "override", Author: q.Author, Reason: q.Reason, Detail: map[string]any{"override": o}}
	if o.Removed {
		e.Action = "end-override"
	}
	if a.o.Overrides.Shared() {
		if done.ThisNodeOnly {
			e.Detail["this_node_only"] = true
		} else if err := overrides.Sharable(a.o.Audit.Node, o, e); err != nil {
			return done, err
		}
	}
	err := a.change(r, e, func(e *audit.Entry) (shared bool, err error) {
		now := a.o.Now()
		switch {
		case !o.Removed && done.ThisNodeOnly:
			done.Replaced, err = a.o.Overrides.Add(o, now)
			return false, err
		case done.ThisNodeOnly:
			done.Replaced, err = a.o.Overrides.Remove(o, now)
			return false, err
		}
		// The shared override ends this node's own one.
		done.Version, done.Replaced, err = a.o.Overrides.Set(ctx, o, q.Version, audit.Text(a.o.Audit.Node, *e))
		return err == nil, err
	})
	return done, err
}

func (a *API) deleteOverride(_ http.ResponseWriter, r *http.Request) (any, error) {
	var q Override
	err := read(r, &q)
	if err == nil && (len(q.Limits) > 0 || !q.Expires.IsZero()) {
		err = errors.New("to end an override, leave out limits and expires")
	}
	if err == nil {
		err = q.Change.check()
	}
	if err != nil {
		return nil, err
	}
	o := overrides.Stored{Added: a.o.Now(), Removed: true, Override: policy.Override{Reason: q.Reason, Author: q.Author}}
	if unused, err := a.unused(&q.Key); unused != nil || err != nil {
		if err != nil {
			return nil, err
		}
		o.Rule, o.Level, o.Key = unused.Rule, unused.Level, unused.Key
		return a.override(r, &q, &o, nil)
	}
	t, err := a.one(&q.Key)
	if err != nil {
		return nil, err
	}
	o.Rule, o.Level, o.Key, o.Parts = t.Rule.Name, t.Level.Name, t.Values, keys.Named(t.Level.Level, t.Values)
	return a.override(r, &q, &o, &t)
}

// unused returns the override of exactly this key if the rules do not have the key. The
// order of the values is not known then.
func (a *API) unused(k *keys.Key) (found *overrides.Stored, err error) {
	p, values := a.o.Policy(), slices.Sorted(maps.Values(k.Parts))
	all := a.o.Overrides.All(a.o.Now())
	for i := range all {
		o := &all[i]
		if o.Rule != k.Rule || o.Level != k.Level || !slices.Equal(slices.Sorted(slices.Values(o.Key)), values) || !overrides.Unused(p, *o) {
			continue
		}
		if found != nil && !slices.Equal(o.Key, found.Key) {
			return nil, fmt.Errorf("rule %q has several unused overrides with these values, in different orders; stop sluice, and take them out of the overrides file", k.Rule)
		}
		found = o
	}
	return found, nil
}

// override changes an override, and returns the present state of the key t. That is nil if the rules
// do not have the key.
func (a *API) override(r *http.Request, q *Override, o *overrides.Stored, t *keys.Target) (*OverrideDone, error) {
	done, err := a.setOverride(r, q, o)
	if err != nil {
		return nil, err
	}
	if t == nil {
		done.Key = KeyState{Key: keys.Key{Rule: o.Rule, Level: o.Level, Parts: q.Parts}}
		return done, nil
	}
	k := describe(t)
	now, err := a.one(&k.Key)
	if err != nil {
		return nil, failed(http.StatusInternalServerError, err)
	}
	if done.Key, err = a.state(r.Context(), &now); err != nil {
		done.Key, done.Problem = describe(&now), "what the key has left is not known: "+err.Error()
	}
	return done, nil
}
