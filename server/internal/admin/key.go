// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/keys"
)

// mostTiers is the most tiers of a rule that are shown, beside its limits without a tier.
const mostTiers = 16

// KeyStates is the answer of GET /v1/key.
type KeyStates struct {
	Keys    []KeyState `json:"keys"`
	Omitted bool       `json:"omitted,omitempty"` // there are more; name a rule
	// Last are the last decisions about the keys in the decision log.
	Last *decided.List `json:"last,omitempty"`
}

// KeyState is the state of a key under the limits of a level.
type KeyState struct {
	keys.Key
	Exempt   bool   `json:"exempt,omitempty"`   // its requests are not charged
	Shadow   bool   `json:"shadow,omitempty"`   // nothing is denied
	Override string `json:"override,omitempty"` // reason for the limits of its own
	// TierBy is the part of a request that names its tier, and Tier the tier
	// of the query. Both are empty if the rule has no tiers, or if the key has
	// limits of its own. UnknownTier is the name in the query if it is no tier.
	TierBy      string       `json:"tier_by,omitempty"`
	Tier        string       `json:"tier,omitempty"`
	UnknownTier string       `json:"unknown_tier,omitempty"`
	Limits      []LimitState `json:"limits"`              // of Tier, or without a tier
	Unlimited   bool         `json:"unlimited,omitempty"` // Limits is empty
	// Tiers are the limits of each tier if the query names none, and MoreTiers
	// is the number of further tiers.
	Tiers     []TierState        `json:"tiers,omitempty"`
	MoreTiers int                `json:"more_tiers,omitempty"`
	InFlight  *evaluate.InFlight `json:"in_flight,omitempty"` // nil: no limit of requests in flight
}

// TierState is the state of a key under the limits of a tier.
type TierState struct {
	Tier      string       `json:"tier"`
	Limits    []LimitState `json:"limits"`
	Unlimited bool         `json:"unlimited,omitempty"` // there are none
}

// LimitState is the state of a key under a limit.
type LimitState struct {
	Limit          sluice.Limit `json:"limit"`
	Full           int64        `json:"full"` // units that an idle key may spend at once; 0 for a block
	sluice.Outcome              // for a cost of 1; Remaining is 0 for a block
	Words          string       `json:"words"` // the arithmetic
}

func (a *API) showKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	k := keys.Key{Parts: make(map[string]string)}
	for name, values := range r.URL.Query() {
		switch {
		case len(values) > 1:
			return nil, fmt.Errorf("%s is given more than once; give it one value", name)
		case name == "rule":
			k.Rule = values[0]
		case name == "level":
			k.Level = values[0]
		default:
			k.Parts[name] = values[0]
		}
	}
	targets, omitted, err := a.targets(&k)
	if err != nil {
		return nil, err
	}
	states := KeyStates{Omitted: omitted}
	for i := range targets {
		s, err := a.state(r.Context(), &targets[i])
		if err != nil {
			return nil, failed(http.StatusServiceUnavailable, err)
		}
		states.Keys = append(states.Keys, s)
	}
	states.Last = new(a.o.Decisions(loggedKeys(targets)))
	return states, nil
}

// targets returns the keys that k means under the active rules and overrides.
func (a *API) targets(k *keys.Key) (targets []keys.Target, omitted bool, err error) {
	return k.Targets(a.o.Policy(), a.o.Overrides)
}

// loggedKeys returns the keys as the decision log names them.
func loggedKeys(targets []keys.Target) (all []decided.Key) {
	for i := range targets {
		t := &targets[i]
		all = append(all, decided.Key{Rule: t.Rule.Name, Level: t.Level.Name, Key: t.Key})
	}
	return all
}

func describe(t *keys.Target) KeyState {
	return KeyState{Key: keys.Key{Rule: t.Rule.Name, Level: t.Level.Name, Parts: keys.Named(t.Level.Level, t.Values)}, Shadow: t.Rule.Shadow}
}

// state peeks at a key under all limits of its level.
func (a *API) state(ctx context.Context, t *keys.Target) (KeyState, error) {
	s := describe(t)
	now := a.o.Now()
	s.Exempt = slices.ContainsFunc(t.Level.ExemptKeys, func(k []string) bool { return slices.Equal(k, t.Values) })
	if o, _ := t.Override(now); o != nil {
		s.Override = o.Reason + " (" + o.Author + ")"
		if !o.Expires.IsZero() {
			s.Override += ", until " + o.Expires.UTC().Format(time.RFC3339)
		}
	}
	if t.Level.InFlight != nil && a.o.Slots != nil {
		req := sluice.SlotRequest{Op: sluice.SlotPeek, Scope: t.Level.Scope, Limit: t.Level.Slots, Key: t.Key, Cost: 1}
		d, err := a.o.Slots.Slot(ctx, req)
		if err != nil {
			return s, err
		}
		s.InFlight = &evaluate.InFlight{Limit: req.Limit, Decision: d}
	}
	if len(t.Level.Limits) == 0 && s.Override == "" && t.Level.Tiers == nil {
		return s, nil // it limits only requests in flight
	}
	tiers := t.Tiers(now)
	if tiers := t.Level.Tiers; s.Override == "" && tiers != nil {
		s.TierBy, s.Tier = tiers.By.String(), t.Tier
		if tiers.Limits[t.Tier] == nil && !slices.Contains(tiers.Unlimited, t.Tier) {
			s.Tier, s.UnknownTier = "", t.Tier
		}
	}
	s.MoreTiers = max(0, len(tiers)-1-mostTiers)
	tiers = tiers[:len(tiers)-s.MoreTiers]
	reqs, decisions, err := a.takes(ctx, t, sluice.OpPeek, tiers, now)
	if err != nil {
		return s, err
	}
	asked := 0
	for i, tier := range tiers {
		of := TierState{Tier: tier, Unlimited: t.Set(tier, now) == nil}
		if !of.Unlimited {
			of.Limits = limitsOf(&reqs[asked], &decisions[asked].Decision)
			if t.Rule.HoldFor > 0 {
				if err := a.holds(ctx, reqs[asked], of.Limits); err != nil {
					return s, err
				}
			}
			asked++
		}
		if i == 0 {
			s.Limits, s.Unlimited = of.Limits, of.Unlimited
		} else {
			s.Tiers = append(s.Tiers, of)
		}
	}
	return s, nil
}

// errChanged is the error of a key whose limits have changed during a call.
var errChanged = errors.New("the limits of the key have just changed; ask again")

// takes asks the store about a key under each of the tiers that limit it, all in one
// call. It returns an error if one of the results is an error.
func (a *API) takes(ctx context.Context, t *keys.Target, op sluice.Op, tiers []string, now time.Time) ([]sluice.Request, []sluice.Result, error) {
	tiers = slices.DeleteFunc(slices.Clone(tiers), func(tier string) bool { return t.Set(tier, now) == nil })
	reqs, out := make([]sluice.Request, len(tiers)), make([]sluice.Result, len(tiers))
	if len(tiers) == 0 {
		return reqs, out, nil
	}
	for i, tier := range tiers {
		s := t.Set(tier, now)
		if s == nil { // its override has expired meanwhile
			return nil, nil, errChanged
		}
		charge := t.Charge(s)
		if reqs[i] = (sluice.Request{Op: op, Charge: charge}); op == sluice.OpPeek {
			reqs[i].Outcomes = new(make(sluice.Outcomes, charge.Plan.Len()))
		} else {
			reqs[i].Cost = 0
		}
	}
	if err := sluice.TakeBatch(ctx, a.o.Store, reqs, out); err != nil {
		return nil, nil, err
	}
	for i := range out {
		if out[i].Err != nil {
			return nil, nil, out[i].Err
		}
	}
	return reqs, out, nil
}

// limitsOf returns the state of a key under the limits of a tier, from a peek.
func limitsOf(req *sluice.Request, d *sluice.Decision) (limits []LimitState) {
	for i, o := range req.Outcomes.All() {
		if len(*req.Outcomes) == 1 {
			o = sluice.Outcome{Allowed: d.Allowed, TooLarge: d.TooLarge, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
		}
		term := req.Plan.Term(i)
		full := term.Full
		if term.Block.For > 0 { // a block has no units
			full, o.Remaining = 0, 0
		}
		limits = append(limits, LimitState{Limit: term.Limit, Full: full, Outcome: o, Words: words(term, o)})
	}
	return limits
}

// holds adds to the words of limits what is held under each.
func (a *API) holds(ctx context.Context, req sluice.Request, limits []LimitState) error {
	e, err := stores.Explain(ctx, a.o.Explains, req)
	if errors.Is(err, stores.ErrNoExplanation) {
		return nil
	}
	for i := range e.Limits {
		if held := e.Limits[i].Held; held != "" {
			limits[i].Words += "; " + held
		}
	}
	return err
}

// words describes an outcome in words, with the numbers from which it follows.
func words(t *sluice.Term, o sluice.Outcome) string {
	if t.Block.For > 0 {
		return blockWords(t, o)
	}
	var b strings.Builder
	full := t.Full
	if o.Remaining > full {
		return fmt.Sprintf("all %d left, and %d of credit; full in %v", full, o.Remaining-full, o.ResetAfter)
	}
	if fmt.Fprintf(&b, "%d of %d left", o.Remaining, full); t.Lent > 0 && o.Remaining == 0 {
		b.WriteString("; the last take spent more than was left, and the next waits until that is paid")
	} else {
		fmt.Fprintf(&b, ", %d used", full-o.Remaining)
	}
	switch {
	case o.Remaining == full:
		b.Reset()
		fmt.Fprintf(&b, "all %d left", full)
	case t.Refill == sluice.Interval:
		fmt.Fprintf(&b, "; refills %d every %v", t.Quota, t.Window)
	case t.Refill == sluice.Aligned:
		fmt.Fprintf(&b, "; refills %d at each %v of the clock", t.Quota, t.Window)
	case t.WarmUp > 0:
		fmt.Fprintf(&b, "; refills 1 every %v, up to three times slower while the key is cold", (t.Window / time.Duration(t.Quota)).Round(time.Microsecond))
	case t.Kind.Bucket():
		fmt.Fprintf(&b, "; refills 1 every %v", (t.Window / time.Duration(t.Quota)).Round(time.Microsecond))
	case t.Kind == compiled.FixedWindow:
		b.WriteString("; refills when the window ends")
	default:
		fmt.Fprintf(&b, "; each is free again as it leaves the window of %v", t.Window)
	}
	switch {
	case o.TooLarge:
		b.WriteString("; 1 more never fits")
	case !o.Allowed:
		fmt.Fprintf(&b, "; 1 more fits in %v", o.RetryAfter)
	case o.Remaining < full:
		b.WriteString("; 1 more fits now")
	}
	if o.ResetAfter > 0 {
		fmt.Fprintf(&b, "; full in %v", o.ResetAfter)
	}
	return b.String()
}

// Reset is the document of POST /v1/key/reset: forget the spent units of a key.
type Reset struct {
	keys.Key
	Change
}

// ResetDone is the answer of POST /v1/key/reset.
type ResetDone struct {
	Keys []KeyState `json:"keys"` // without limits
	// ThisNodeOnly reports that the reset has no effect on other nodes: the store is in
	// this process.
	ThisNodeOnly bool `json:"this_node_only"`
	// NotTold is the reason why other nodes may use their cached state of the keys for a
	// while: at most a second, or until their leases of the keys' units end.
	NotTold string `json:"not_told,omitempty"`
}

func (a *API) resetKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	var q Reset
	if err := asked(r, &q); err != nil {
		return nil, err
	}
	targets, omitted, err := a.targets(&q.Key)
	if err == nil && omitted {
		err = fmt.Errorf("more than %d keys match; name a rule", keys.Max)
	}
	if err != nil {
		return nil, err
	}
	done := ResetDone{ThisNodeOnly: !a.o.Shared}
	for i := range targets {
		done.Keys = append(done.Keys, describe(&targets[i]))
	}
	ctx := r.Context()
	e := audit.Entry{Action: "reset", Author: q.Author, Reason: q.Reason, Detail: map[string]any{"keys": done.Keys}}
	err = a.change(r, e, func(e *audit.Entry) (bool, error) {
		var errs []error
		for i := range targets {
			errs = append(errs, a.reset(ctx, &targets[i]))
		}
		if err := errors.Join(errs...); err != nil {
			return false, err
		}
		for _, part := range audit.Split(a.o.Audit.Node, *e, done.Keys) {
			if err := a.o.Audit.Tell(ctx, part); err != nil {
				done.NotTold = err.Error()
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, failed(http.StatusServiceUnavailable, err)
	}
	return done, nil
}

func (a *API) reset(ctx context.Context, t *keys.Target) error {
	if l := t.Level; len(l.Limits)+len(l.Overrides)+len(l.Candidates) == 0 && l.Tiers == nil {
		return nil // it limits only requests in flight, which end by themselves
	}
	now := a.o.Now()
	_, _, err := a.takes(ctx, t, sluice.OpReset, t.Tiers(now), now) // the key may have spent units under each
	return err
}

// blockWords is words for a block.
func blockWords(t *sluice.Term, o sluice.Outcome) string {
	switch {
	case !o.Allowed:
		return fmt.Sprintf("blocked for another %v, whatever the other limits have left; a reset of the key ends it", o.RetryAfter)
	case o.ResetAfter > 0:
		return fmt.Sprintf("not blocked; denied less than %d times in the window that ends in %v", t.Quota, o.ResetAfter)
	default:
		return fmt.Sprintf("not blocked, and nothing was denied recently; it takes %d denials in %v", t.Quota, t.Window)
	}
}
