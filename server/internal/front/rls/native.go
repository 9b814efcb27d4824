// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"
	"math"
	"sync"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// rules decide descriptors by the rules of the configuration.
type rules struct {
	*evaluate.Evaluator
	policy *policy.Policy
	store  sluice.Store
	shared bool      // the store is elsewhere
	unused sync.Pool // of *ruled
}

// newRules returns the rules of a listener, nil if there are none.
func newRules(s *front.Snapshot) (*rules, error) {
	if s.Policy == nil || len(s.Policy.Rules()) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	e, err := evaluate.New(evaluate.Options{
		Name: name, Policy: s.Policy, Store: s.Store, Overrides: s.Overrides, Queue: s.Queue, NoBodies: true, NoResponses: true, Now: s.Now,
		OnError: func(ctx context.Context, _ policy.Attributes, err error) { s.OnError(ctx, err) },
	})
	return &rules{Evaluator: e, policy: s.Policy, store: s.Store, shared: s.Config.Store.Redis != ""}, err
}

// ruled is a descriptor that at least one rule matches. It is its attributes.
type ruled struct {
	asked
	entries []*commonpb.RateLimitDescriptor_Entry
	value   [1]string

	at      int // its index in the request
	of      *descriptor
	matches policy.Matches
	call    evaluate.Call
	room    sluice.Outcomes
}

// Descriptor returns the entries of a [policy.Descriptor] part.
func (r *ruled) Descriptor(key string) ([]string, int) {
	values := r.value[:0]
	for _, e := range r.entries {
		if e.GetKey() == key {
			values = append(values, e.GetValue())
		}
	}
	return values, len(r.entries)
}

// rule begins to decide the descriptors that rules match. They are decided once d.deciding is done.
func (d *decision) rule(ctx context.Context) {
	if d.rules == nil {
		return
	}
	host, limited := ratelimit.HostOf(d.request.GetDomain()), false
	for i, of := range d.request.GetDescriptors() {
		limited = limited || d.descriptors[i].limit != nil
		r, ok := d.rules.unused.Get().(*ruled)
		if !ok {
			r = new(ruled)
		}
		r.host, r.entries, r.at, r.of = host, of.GetEntries(), i, &d.descriptors[i]
		if d.rules.policy.Match(r, &r.matches); r.matches.Len() == 0 {
			d.rules.unused.Put(r)
			continue
		}
		d.descriptors[i].ruled, d.ruled = r, append(d.ruled, r)
	}
	for _, r := range d.ruled {
		if d.rules.shared && (limited || len(d.ruled) > 1) {
			d.deciding.Go(func() { r.decide(ctx, d.rules) })
		} else {
			r.decide(ctx, d.rules)
		}
	}
}

// decide decides a descriptor, or gives its hits back.
func (r *ruled) decide(ctx context.Context, by *rules) {
	r.call.Peek, r.call.Cost = r.of.hits == 0, nil
	if r.of.stated && r.of.hits > 0 {
		r.call.Cost = &r.of.hits
	}
	if r.of.hits == 0 || !r.of.negative {
		if by.Decide(ctx, r, &r.call); r.call.Settles() {
			r.call.Settle(ctx, policy.Response{})
		}
		return
	}
	charges := by.Charges(ctx, r, &r.call)
	if !r.call.Verdict.Passes() || len(charges) == 0 {
		return
	}
	req := sluice.Request{Op: sluice.OpAdd, Charge: charges[0], More: charges[1:], Outcomes: &r.room}
	if n := req.Limits(); cap(r.room) < n {
		r.room = make(sluice.Outcomes, n)
	} else {
		r.room = r.room[:n]
	}
	var result sluice.Result
	result.Decision, result.Err = by.store.Take(ctx, req)
	r.call.Conclude(ctx, result, r.room)
}

// over reports whether the rules deny the descriptor. Hits that are given back they never deny.
func (r *ruled) over() bool { return !r.call.Verdict.Passes() && !r.of.negative }

// undecided returns why rules have not decided a descriptor, as an error of gRPC. One without a
// usable key they have denied: an error would let the client pass.
func (d *decision) undecided() error {
	for _, r := range d.ruled {
		if r.call.Verdict == evaluate.Abandoned {
			return status.FromContextError(r.call.Err).Err()
		}
	}
	return nil
}

// recordRules records the descriptors that rules have decided. Hits that are given back are no
// decision.
func (d *decision) recordRules(ctx context.Context, from string, began time.Time) {
	for _, r := range d.ruled {
		if !r.call.Peek && !r.of.negative {
			d.record(ctx, from, began, &r.call.Event, r, keyOf(d.request.GetDomain(), r.entries, nil))
		}
	}
}

// release ends the use of the descriptors that rules have decided.
func (d *decision) release() {
	for _, r := range d.ruled {
		r.entries, r.of = nil, nil
		d.rules.unused.Put(r)
	}
}

// state adds the decision of the rules to the status of the descriptor, which has that of a limit
// of the files if there is one: the limit that denies, or else the one with fewer units left. It
// reports whether the status has changed.
func (r *ruled) state(s *pb.RateLimitResponse_DescriptorStatus) bool {
	e := &r.call.Event
	uncounted := e.Decision.Degraded && e.Decision.Nodes == 0 // the store is away
	left := uint32(min(max(e.Decision.Remaining, 0), math.MaxUint32))
	if r.over() {
		s.Code, left = pb.RateLimitResponse_OVER_LIMIT, 0
	} else if e.Limit == nil || uncounted || s.GetCode() == pb.RateLimitResponse_OVER_LIMIT || s.GetCurrentLimit() != nil && s.GetLimitRemaining() <= left {
		return false
	}
	s.LimitRemaining, s.CurrentLimit, s.DurationUntilReset = left, nil, nil
	if e.Limit != nil {
		reset := e.Decision.ResetAfter
		if r.over() && !e.Decision.TooLarge {
			reset = e.Decision.RetryAfter
		}
		up := (reset + time.Second - 1).Truncate(time.Second) // Envoy tells clients whole seconds
		s.CurrentLimit, s.DurationUntilReset = statedOf(&e.Limit.Limit), durationpb.New(up)
		if s.CurrentLimit.Name = e.Limit.Name; s.CurrentLimit.Unit == pb.RateLimitResponse_RateLimit_UNKNOWN {
			s.CurrentLimit.Name = e.Limit.String()
		}
	}
	return true
}
