// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/clock"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/policy"
)

// Evaluator decides requests under one policy, in the same way for every protocol: it finds
// the client behind proxies, decides, delays requests in a bounded queue, and keeps their
// slots in flight while they run. The server of the protocol gives it [policy.Attributes] and
// writes the answer.
//
// It does not change, is safe for concurrent use and holds no state of its own. For another
// policy make another Evaluator: states live in the store under the names of rules and limits,
// so that a changed limit keeps the units spent under the old one. Requests that were decided
// already are settled under the policy that decided them.
type Evaluator struct {
	opts     Options
	slots    sluice.SlotStore // of the options, or the store; nil if neither keeps slots
	ownSlots bool             // slots is the store
	rules    []rule
	finder   *clientip.Finder
	clients  clientip.Admission
	clock    clock.Clock // by which requests wait
	// identity distinguishes the stores of the evaluators that share a Queue.
	identity any
	log      sampledlog.Log
}

// New returns an Evaluator, or an error that joins all faults of o.
func New(o Options) (*Evaluator, error) {
	if o.Name == "" {
		o.Name = "evaluate"
	}
	var all []error
	fault := func(format string, args ...any) {
		all = append(all, fmt.Errorf(o.Name+": "+format, args...))
	}
	if o.Store == nil {
		fault("Store is nil; make one, such as memstore.New(memstore.Options{})")
	}
	switch {
	case o.Policy != nil && len(o.Rules) > 0:
		fault("Rules and Policy exclude each other; set one of them")
	case o.Policy == nil && len(o.Rules) == 0:
		fault("Rules: there are none; make one, such as policy.NewRule(\"api\", policy.IP(), sluice.PerMinute(100))")
	case o.Policy == nil:
		compiled, err := policy.Compile(o.Rules)
		if err != nil {
			fault("Rules: %w", err)
		}
		o.Policy = compiled
	}
	if o.MaxWait < 0 || o.MaxWait > sluice.MaxWait {
		fault("MaxWait: %v must be 0 to %v", o.MaxWait, sluice.MaxWait)
	}
	if o.CallerWaits && o.Queue != nil {
		fault("Queue and CallerWaits exclude each other; set one of them")
	}
	finder, err := clientip.New(clientip.Options{Trusted: o.Trusted, Header: o.ClientHeader, Hops: o.ClientHops})
	if err != nil {
		fault("client address: %w", err)
	}
	if o.Policy != nil {
		for i := range len(o.Policy.Rules()) {
			if why := o.Policy.Rules()[i].Unserved(!o.NoBodies, !o.NoResponses); why != "" {
				fault("rule %q %s", o.Policy.Rules()[i].Name, why)
			}
		}
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	if o.Queue == nil && !o.CallerWaits {
		o.Queue = NewQueue(bounds.DefaultQueue)
	}
	var c clock.Clock // the machine's
	if o.AfterFunc != nil || o.CallerWaits {
		c = clock.Clock{Now: o.Now, AfterFunc: o.AfterFunc}
	}
	c = c.Filled()
	if o.Queue != nil {
		o.Queue.clock.CompareAndSwap(nil, &c)
		c = *o.Queue.clock.Load()
	}
	o.Now = clock.Clock{Now: o.Now}.Filled().Now
	e := &Evaluator{
		opts: o, clock: c, rules: newRules(o.Policy), finder: finder, clients: clientip.NewAdmission(o.Allow, o.Deny),
		log: sampledlog.Log{Logger: slog.Default(), Part: o.Name},
	}
	if e.slots = o.Slots; e.slots == nil {
		e.slots, e.ownSlots = o.Store.(sluice.SlotStore)
	}
	if e.identity = o.Store; !reflect.ValueOf(o.Store).Comparable() {
		e.identity = e
	}
	return e, nil
}

// Client returns the address of a request's client: the peer's or, if the peer is a trusted
// proxy, the one in its header. lines returns the lines of a header field by its canonical
// name.
func (e *Evaluator) Client(peer netip.Addr, lines func(name string) []string) netip.Addr {
	return e.finder.Behind(peer, lines)
}

// Decide charges a request under all rules that match it, except rules that shape, and blocks
// while it is delayed. It puts the outcome into c, which may have been used before. If the
// request passes, [Call.Settle] must follow once its response is known.
//
// It calls the store once, once more for a request that goes over a soft limit, and once more
// to give units back if a rule that counts responses denies. It allocates little more than the
// keys.
func (e *Evaluator) Decide(ctx context.Context, a policy.Attributes, c *Call) {
	c.begin(e)
	if c.Peek {
		e.evaluate(ctx, a, &c.evaluated, true)
		c.conclude(ctx)
		c.pass()
		return
	}
	decided := false
	defer func() {
		if !decided {
			c.drop(ctx)
		}
	}()
	e.decide(ctx, a, c)
	if e.opts.OnDecision != nil {
		if c.unreported = c.metered(); !c.unreported {
			e.opts.OnDecision(ctx, a, &c.Event)
		}
	}
	if decided = true; !c.Verdict.Passes() {
		return
	}
	if c.evaluated.timed() {
		c.passed = e.clock.Now()
	}
	if lease := c.evaluated.lease(); lease > 0 && e.opts.Queue != nil { // not before the hook, which may panic
		c.stop = e.renew(ctx, &c.evaluated, lease)
	}
}

func (e *Evaluator) decide(ctx context.Context, a policy.Attributes, c *Call) {
	if !e.clients.Admits(a.Client()) {
		c.Event = Event{Verdict: Refused, Err: ErrNotAdmitted}
		return
	}
	if err := caller.Left(ctx); err != nil {
		c.Event = Event{Verdict: Abandoned, Err: err}
		return
	}
	e.evaluate(ctx, a, &c.evaluated, false)
	e.conclude(ctx, a, a, c)
}

// conclude sets the Event that follows from the verdict, and blocks while the request is
// delayed. OnDelay is called with held.
func (e *Evaluator) conclude(ctx context.Context, a, held policy.Attributes, c *Call) {
	v := &c.evaluated
	c.conclude(ctx)
	if v.Err != nil && c.Verdict != Abandoned { // a store that gave up because the client left has not failed
		e.Report(ctx, a, v.Err)
	}
	if c.Verdict.Passes() && v.Decision.Delay > 0 && v.evaluator.opts.Queue != nil {
		c.hold(ctx, held)
	}
	c.pass()
	if v.waiter != nil { // it does not pass
		v.vacate(ctx)
	}
	v.leaveQueue()
}

// Report passes an error to OnError or, without one, to the log. A nil error is ignored.
func (e *Evaluator) Report(ctx context.Context, a policy.Attributes, err error) {
	switch {
	case err == nil:
	case e.opts.OnError != nil:
		e.opts.OnError(ctx, a, err)
	default:
		e.log.Error(ctx, "rate limit store failed", err)
	}
}

// evaluate charges the request under all rules that match it, or peeks.
func (e *Evaluator) evaluate(ctx context.Context, a policy.Attributes, v *Verdict, peek bool) {
	v.reset(a, peek)
	e.opts.Policy.Match(a, &v.matches)
	v.collect()
	if v.delays() {
		v.patience(ctx)
	}
	if v.Refused != nil || v.Failure != sluice.FailOpen || !peek && len(v.holds) > 0 && !v.joins() && !v.acquire(ctx) {
		v.asks, v.enforced = v.asks[:0], 0
		if v.Refused != nil {
			v.Shapes = v.Shapes[:0]
		}
		return
	}
	if len(v.asks) == 0 {
		v.Allowed = true
		return
	}
	v.layout()
	if len(v.charges) > sluice.MaxCharges && v.tooManyCharges(ctx) {
		return
	}
	if v.delays() {
		v.enterQueue()
	}
	if !v.askWithSlot(ctx) {
		v.asks, v.enforced = v.asks[:0], 0
		return
	}
	v.combine(ctx)
	if !v.Allowed && len(v.holds) > 0 {
		v.Err = errors.Join(v.Err, v.release(ctx))
	}
}

// tooManyCharges fails a request that is charged more than a store accepts, whatever the
// failure policies of its rules: the client caused it, and it does not pass.
func (v *Verdict) tooManyCharges(ctx context.Context) bool {
	for i := range v.enforced {
		k := &v.asks[i]
		if k.n <= sluice.MaxCharges {
			continue
		}
		v.Err = fmt.Errorf("evaluate: a request is charged under %d levels of rules at once; at most %d can be decided together: narrow what the rules match",
			k.n, sluice.MaxCharges)
		v.Failure = sluice.FailClosed
		v.asks, v.enforced = v.asks[:0], 0
		v.Err = errors.Join(v.Err, v.release(ctx))
		return true
	}
	return false
}
