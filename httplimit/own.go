// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// mostOwn is the largest number of rules in an answer: each may need a call of the store.
const mostOwn = 64

// ownLimits answers a client with the state of its own keys: for every rule whose key the
// request at /.well-known/ratelimit has by its own address, fields and cookies, whatever paths
// and methods the rule matches. None of the keys is charged. A budget of all clients, or of
// all of one host, is not a client's own and not shown, nor are shadow rules, candidates
// and limits of requests in flight. A token that is not usable is answered with 401, as for
// other requests. An ownLimits does not change and is safe for concurrent use.
type ownLimits struct {
	rules     []string // names, in order; empty if nothing can be shown
	evaluator *evaluate.Evaluator
	askers    *sluice.Limiter
	clients   *clientip.Finder // groups clients by network
	fields    Fields
	omitted   bool // there are more rules than mostOwn
}

// newOwnLimits returns the ownLimits of a policy.
func newOwnLimits(p *policy.Policy, options *Options, clients *clientip.Finder) (*ownLimits, error) {
	o := &ownLimits{askers: options.OwnLimits, clients: clients, fields: options.Fields}
	var rules []policy.Rule
	for i := range len(p.Rules()) {
		r := ownRule(p.Rules()[i])
		if len(r.Levels) == 0 {
			continue
		}
		if len(rules) == mostOwn {
			o.omitted = true
			break
		}
		rules = append(rules, r)
		o.rules = append(o.rules, ownPath(r.Name))
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		return nil, fmt.Errorf("httplimit: own limits: %w", err)
	}
	o.evaluator, err = evaluate.New(evaluate.Options{Name: "httplimit: own limits", Policy: compiled, Store: options.Store, Overrides: options.Overrides, Now: options.Now, CallerWaits: true})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// ownPath returns a path that only one rule matches, so that each rule is peeked at alone.
func ownPath(rule string) string { return "/rule-" + rule }

// ownRule returns a rule with the keys of r that a request of any path has. It has the same
// names and so the same states.
func ownRule(r policy.Rule) policy.Rule {
	if r.Shadow {
		r.Levels = nil
		return r
	}
	r.Shape, r.Lease, r.Answer = false, nil, nil // for showing only: nothing passes
	r.Match = policy.Match{Hosts: r.Match.Hosts, Headers: r.Match.Headers, Networks: r.Match.Networks, Paths: []string{ownPath(r.Name)}, Descriptor: r.Match.Descriptor, ExceptDescriptor: r.Match.ExceptDescriptor}
	if r.Cost, r.When, r.MaxWait, r.HoldFor = (policy.Cost{}), nil, 0, 0; countsBytes(&r) {
		r.Cost.Of = policy.ResponseBytes // which is also 1 before the response
	}
	var levels []policy.Level
	for _, l := range r.Levels {
		if l.Limits == nil && !l.Unlimited || slices.ContainsFunc(l.By, notOwn) || !slices.ContainsFunc(l.By, ofClient) {
			continue
		}
		if l.Tiers != nil && notOwn(l.Tiers.By) {
			continue
		}
		l.Missing, l.InFlight, l.Candidates = policy.Skip, nil, nil
		// Units shared by requests without the part are not the client's own.
		l.Overrides = slices.DeleteFunc(slices.Clone(l.Overrides), func(o policy.Override) bool { return slices.Contains(o.Key, "") })
		l.ExemptKeys = slices.DeleteFunc(slices.Clone(l.ExemptKeys), func(key []string) bool { return slices.Contains(key, "") })
		levels = append(levels, l)
	}
	r.Levels = levels
	return r
}

func countsBytes(r *policy.Rule) bool {
	return slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		return slices.ContainsFunc(l.Limits, func(l policy.Limit) bool { return l.Unit == sluice.Bytes })
	})
}

// notOwn reports whether a part belongs to a request rather than to its client.
func notOwn(p policy.Part) bool {
	switch p.Source {
	case source.IP, source.Header, source.Cookie, source.Claim, source.Certificate, source.Host:
		return false
	case source.First, source.All:
		return slices.ContainsFunc(p.Parts(), notOwn)
	default:
		return true
	}
}

// ofClient reports whether a part distinguishes clients, including each of several parts.
func ofClient(p policy.Part) bool {
	switch p.Source {
	case source.First:
		return !slices.ContainsFunc(p.Parts(), func(p policy.Part) bool { return !ofClient(p) })
	case source.All:
		return slices.ContainsFunc(p.Parts(), ofClient)
	default:
		return p.Source != source.Host && !notOwn(p)
	}
}

// ownRequest are the attributes of a client's question, with another path.
type ownRequest struct {
	*attributes
	path string
}

func (r *ownRequest) Path() string { return r.path }

// ownLimit describes one of a client's own limits.
type ownLimit struct {
	Name       string `json:"name"`
	Quota      int64  `json:"quota"`
	Full       int64  `json:"full,omitempty"` // units of a full key, if not the quota
	Unit       string `json:"unit"`
	Window     int64  `json:"window"`      // seconds, rounded up
	Remaining  int64  `json:"remaining"`   // units
	ResetAfter int64  `json:"reset_after"` // seconds until the key is full again
	RetryAfter int64  `json:"retry_after"` // seconds until 1 unit fits; 0: now
	Soft       bool   `json:"soft,omitempty"`
	Grace      bool   `json:"grace,omitempty"`
}

// ownAnswer is the document at /.well-known/ratelimit.
type ownAnswer struct {
	Limits  []ownLimit `json:"limits"`
	Omitted bool       `json:"omitted,omitempty"` // there are more limits
}

func (o *ownLimits) serve(w http.ResponseWriter, r *http.Request, a *attributes, client netip.Addr) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		WriteProblem(w, r, Event{Event: evaluate.Event{Verdict: evaluate.Refused}, Status: http.StatusMethodNotAllowed})
		return
	}
	d, err := o.askers.Take(r.Context(), o.clients.Group(client), 1)
	if err == nil && !d.Allowed {
		limit := o.askers.Plan().Term(d.Binding)
		o.fields.Set(w.Header(), slices.Values([]*sluice.Term{limit}), limit, d)
		denied := evaluate.Event{Verdict: evaluate.Denied, Decision: d, Limit: limit, Violated: []string{limit.Name}}
		WriteProblem(w, r, Event{Event: denied, Status: http.StatusTooManyRequests})
		return
	}
	answer := ownAnswer{Limits: []ownLimit{}, Omitted: o.omitted}
	if err == nil {
		err = o.look(r, a, &answer)
	}
	if token, ok := errors.AsType[*policy.TokenError](err); ok {
		challenge(w.Header(), token)
		WriteProblem(w, r, Event{Event: evaluate.Event{Verdict: evaluate.Refused, Err: token}, Status: http.StatusUnauthorized})
		return
	}
	body, failed := json.Marshal(answer)
	if err != nil || failed != nil {
		WriteProblem(w, r, Event{Event: evaluate.Event{Verdict: evaluate.FailedClosed}, Status: http.StatusServiceUnavailable})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(append(body, '\n')); err != nil {
		return // the client is gone
	}
}

// look adds the client's remaining units to answer. Its error is the store's, or a
// [*policy.TokenError] if a rule needs a claim of a token that is not usable.
func (o *ownLimits) look(r *http.Request, a *attributes, answer *ownAnswer) error {
	c := evaluate.Call{Peek: true}
	for _, path := range o.rules {
		o.evaluator.Decide(r.Context(), &ownRequest{a, path}, &c)
		v := c.Evaluated
		if v.Refused != nil {
			if _, ok := errors.AsType[*policy.TokenError](v.Refused.Err); ok {
				return v.Refused.Err
			}
			// A part that is sent twice, or that servers read in different ways: the rule
			// refuses every such request, so there is no key to show.
			continue
		}
		if v.Err != nil {
			return v.Err
		}
		for out := range v.Outcomes() {
			if out.Limit.Block.For > 0 {
				if !out.Allowed {
					answer.Limits = append(answer.Limits, blockOf(&out))
				}
				continue
			}
			l := ownLimit{
				Name: out.Name(), Quota: out.Limit.Quota, Unit: out.Limit.Unit.String(),
				Window: ceilSeconds(out.Limit.Window), Remaining: max(out.Remaining, 0), ResetAfter: ceilSeconds(out.ResetAfter),
				Soft: out.Soft, Grace: out.Grace,
			}
			if full := out.Limit.Full; full != l.Quota {
				l.Full = full
			}
			if !out.Allowed && !out.TooLarge {
				l.RetryAfter = max(ceilSeconds(out.RetryAfter), 1)
			}
			answer.Limits = append(answer.Limits, l)
		}
	}
	return nil
}

// blockOf describes a block that denies: no units remain until it ends.
func blockOf(out *evaluate.Outcome) ownLimit {
	left := max(ceilSeconds(out.RetryAfter), 1)
	return ownLimit{Name: out.Name(), Unit: out.Limit.Unit.String(), Window: ceilSeconds(out.Limit.Block.For), ResetAfter: left, RetryAfter: left}
}
