// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// Bounds of a request.
const (
	maxDescriptors = 256
	maxHits        = 1_000_000_000 // of a descriptor, as the protocol has it
	maxKey         = 8 << 10       // bytes of a descriptor's key, and of an owner
)

// ShouldRateLimit implements the Rate Limit Service.
func (l *listener) ShouldRateLimit(ctx context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	return l.current.Load().decide(ctx, q, address)
}

// descriptor is a descriptor of a request being decided.
type descriptor struct {
	limit     *limit // nil: none
	shared    []string
	hits      int64
	stated    bool // the request says how many hits
	negative  bool // hits are given back
	unlimited bool
	key       string
	owner     string // of a slot
	fresh     bool   // the owner has had no slot before the request
	request   int    // the index of its request to the store
	charge    int    // the index of its charge in that request
	standing  standing
	ruled     *ruled // nil: no rule matches it
}

// decision is a request being decided.
type decision struct {
	*active
	request     *pb.RateLimitRequest
	descriptors []descriptor
	ruled       []*ruled // those that rules match
	deciding    sync.WaitGroup
	requests    []sluice.Request
	results     []sluice.Result
	joint       int         // the index of the request that takes the hits of several descriptors; -1: none
	slot        *descriptor // that acquires its slot in that request; nil: none
	room        struct {    // of most requests
		descriptors [4]descriptor
		requests    [4]sluice.Request
		results     [4]sluice.Result
	}
}

// decide decides a request from an address.
func (a *active) decide(ctx context.Context, q *pb.RateLimitRequest, from string) (*pb.RateLimitResponse, error) {
	began := a.Now()
	if a.admits != nil && !a.admits.Admits(clientip.Peer(from)) {
		a.record(ctx, from, began, &evaluate.Event{Verdict: evaluate.Refused, Err: evaluate.ErrNotAdmitted}, asked{}, "")
		return nil, status.Error(codes.PermissionDenied, evaluate.ErrNotAdmitted.Error())
	}
	d := &decision{active: a, request: q, joint: -1}
	d.descriptors, d.requests, d.results = d.room.descriptors[:0], d.room.requests[:0], d.room.results[:0]
	err := d.find()
	if err == nil {
		err = d.ask()
	}
	if err != nil {
		a.statistics.add(serviceError)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	d.rule(ctx)
	err = d.count(ctx)
	d.deciding.Wait()
	defer d.release()
	d.recordAll(ctx, from, began, err)
	if err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		a.OnError(ctx, err)
		a.statistics.add(redisError)
		return nil, status.Error(codes.Unavailable, "the rate limit could not be checked; retry later")
	}
	if a.limits.EnvoyNames {
		a.statistics.count(d)
	}
	if err := d.undecided(); err != nil {
		return nil, err
	}
	return d.answer(), nil
}

// find finds the limits of the descriptors.
func (d *decision) find() error {
	q := d.request
	switch {
	case q.GetDomain() == "":
		return errors.New("rate limit domain must not be empty")
	case len(q.GetDescriptors()) == 0:
		return errors.New("rate limit descriptor list must not be empty")
	case len(q.GetDescriptors()) > maxDescriptors:
		return fmt.Errorf("%d descriptors; at most %d are decided", len(q.GetDescriptors()), maxDescriptors)
	}
	var replaced map[string]bool
	for i, of := range q.GetDescriptors() {
		d.descriptors = append(d.descriptors, descriptor{})
		k := &d.descriptors[i]
		if err := d.one(k, of); err != nil {
			return fmt.Errorf("descriptor %d: %w", i+1, err)
		}
		if k.limit == nil {
			continue
		}
		for _, name := range k.limit.Replaces {
			if replaced == nil {
				replaced = make(map[string]bool)
			}
			replaced[name] = true
		}
		if k.limit.Unlimited {
			k.limit, k.unlimited = nil, true
		}
	}
	for i := range d.descriptors {
		if k := &d.descriptors[i]; k.limit != nil && replaced[k.limit.Name] {
			k.limit = nil
		}
	}
	return nil
}

// one finds the limit of a descriptor.
func (d *decision) one(k *descriptor, of *commonpb.RateLimitDescriptor) error {
	k.hits, k.negative = max(int64(d.request.GetHitsAddend()), 1), of.GetIsNegativeHits()
	k.stated = d.request.GetHitsAddend() > 0 || of.GetHitsAddend() != nil
	if own := of.GetHitsAddend(); own != nil {
		if own.GetValue() > maxHits {
			return fmt.Errorf("hits_addend is %d; it is at most %d", own.GetValue(), maxHits)
		}
		k.hits = int64(own.GetValue())
	}
	domain, entries := d.request.GetDomain(), of.GetEntries()
	brought := of.GetLimit()
	switch {
	case !d.limits.files.Has(domain):
		return nil
	case brought == nil:
		m := ratelimit.Find(d.limits.files, domain, entries)
		if m.Limit == nil {
			return nil
		}
		k.limit, k.shared = d.limits.known[m.Limit], m.Shared
		if k.limit.Slots.Cap > 0 {
			if k.owner, entries = entries[len(entries)-1].GetValue(), entries[:len(entries)-1]; k.owner == "" && k.hits > 0 {
				return errors.New("the value of its entry owner is empty; send an id that no other request has")
			}
		}
	default:
		unit := ratelimit.Unit(brought.GetUnit())
		if unit.Window() == 0 {
			return fmt.Errorf("the unit of limit is %v; use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR", brought.GetUnit())
		}
		units := max(brought.GetUnitMultiplier().GetValue(), 1)
		if int64(units) > int64(sluice.MaxWindow/unit.Window()) {
			return fmt.Errorf("the window of limit is %d times %v; use %v at most", units, brought.GetUnit(), sluice.MaxWindow)
		}
		k.limit = d.limits.brought(terms{unit, units, brought.GetRequestsPerUnit()})
	}
	k.key, k.owner = bounded(keyOf(domain, entries, k.shared)), bounded(k.owner)
	return nil
}

// count carries out the requests in one call to the store, and then acquires and releases slots.
func (d *decision) count(ctx context.Context) error {
	var err error
	if d.joint >= 0 && d.slot != nil {
		if err = d.renew(ctx, d.slot); err != nil {
			return err
		}
	}
	switch len(d.requests) {
	case 0:
	case 1:
		d.results[0].Decision, err = d.Store.Take(ctx, d.requests[0])
	default:
		err = sluice.TakeBatch(ctx, d.Store, d.requests, d.results)
	}
	for i := range d.results {
		err = errors.Join(err, d.results[i].Err)
	}
	if err == nil {
		err = d.shareJoint(ctx)
	}
	if err != nil {
		return err
	}
	for i := range d.descriptors {
		switch k := &d.descriptors[i]; {
		case k.limit == nil || k.limit.Slots.Cap > 0:
		case k.limit.plan == nil:
			k.standing = standingOf(&d.results[k.request].Decision)
		default:
			d.taken(k)
		}
	}
	d.deciding.Wait() // a request that rules deny acquires no slot
	return d.hold(ctx)
}

// recordAll records each descriptor that has a limit, or the request if none has.
func (d *decision) recordAll(ctx context.Context, from string, began time.Time, err error) {
	d.recordRules(ctx, from, began)
	alone, of := len(d.ruled) == 0, asked{ratelimit.HostOf(d.request.GetDomain())}
	for i := range d.descriptors {
		k := &d.descriptors[i]
		if k.limit == nil {
			continue
		}
		alone = false
		e := evaluate.Event{Limit: k.limit.terms[k.standing.binding], Charge: sluice.Charge{Key: k.key, Cost: k.hits}, Err: err}
		if err != nil {
			e.Verdict, e.Limit = evaluate.FailedClosed, nil
			if ctx.Err() != nil { // the client has left
				e.Verdict = evaluate.Abandoned
			}
		} else {
			e.Decision = k.standing.decision(k)
			switch over := k.standing.over(k); {
			case over && k.limit.Shadow:
				e.Decision.Allowed, e.Violated = true, []string{k.violated()}
			case over && e.Limit == nil:
				e.Verdict, e.Violated = evaluate.Denied, []string{k.violated()}
			case over:
				e.Verdict = evaluate.Denied
			}
		}
		d.record(ctx, from, began, &e, of, k.key)
	}
	if alone {
		d.record(ctx, from, began, &evaluate.Event{}, of, d.request.GetDomain())
	}
}

// violated returns the name of the limit that binds.
func (k *descriptor) violated() string {
	if t := k.limit.terms[k.standing.binding]; t != nil {
		return t.Name
	}
	return limitName(k.limit.Path)
}

// record records a decision on a descriptor.
func (a *active) record(ctx context.Context, from string, began time.Time, e *evaluate.Event, of policy.Attributes, target string) {
	for _, ended := range []bool{false, true} {
		a.records.Record(ctx, func(r *front.Record) {
			r.Ended, r.Event, r.Request = ended, *e, of
			r.Method, r.Host, r.Target, r.Proto, r.Peer, r.Status = method, of.Host(), target, "gRPC", from, 200
			switch {
			case e.Verdict.Passes():
			case e.Verdict == evaluate.Abandoned || e.Verdict == evaluate.FailedClosed:
				r.Status = http.StatusServiceUnavailable
			case errors.Is(e.Err, evaluate.ErrNotAdmitted):
				r.Status = http.StatusForbidden
			default:
				r.Status = http.StatusTooManyRequests
			}
			if ended {
				r.Route, r.At, r.Took, r.In = name, began, a.Now().Sub(began), -1
			}
		})
	}
}

// method is the method of records.
const method = "ShouldRateLimit"

// asked are the attributes of a request. Its host is the domain.
type asked struct{ host string }

var _ policy.Attributes = asked{}

func (asked) Method() string                  { return method }
func (a asked) Host() string                  { return a.host }
func (asked) Path() string                    { return "" }
func (asked) Header(string) []string          { return nil }
func (asked) Query(string) ([]string, error)  { return nil, nil }
func (asked) Cookie(string) ([]string, error) { return nil, nil }
func (asked) Client() netip.Addr              { return netip.Addr{} }
func (asked) Claim(string) (string, error)    { return "", nil }
func (asked) Length() int64                   { return -1 }
