// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
)

// FrontOptions configure a [Front]. Store is required, and one of Rules and Policy; zero
// values of all other fields are valid.
type FrontOptions struct {
	// Name begins the front's errors and log lines. Empty means "policy".
	Name string

	Store sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it is a [sluice.SlotStore].
	Slots sluice.SlotStore
	// Rules are the rules to decide by; [Compile] checks them.
	Rules []Rule
	// Policy are compiled rules, such as those of a file that package config has read.
	Policy *Policy

	// NoBodies refuses rules that shape: the protocol has no bodies to slow down.
	NoBodies bool
	// NoResponses refuses rules that wait for a response or limit requests in flight: the
	// protocol has no response.
	NoResponses bool

	// Trusted are the proxies whose ClientHeader is trusted, which is X-Forwarded-For by
	// default. Without any, the client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known, and
	// excludes Trusted: the client's address is the one at this position in ClientHeader,
	// counted from the right, where the nearest proxy appends. With fewer addresses it is
	// the peer's. Clients must reach the front only through that many proxies: otherwise
	// they can choose their address.
	ClientHops int
	// Allow, if not empty, are the only networks whose clients are admitted; clients in
	// Deny are not admitted even so. A client that is not admitted is refused with
	// [ErrNotAdmitted] before anything is decided.
	Allow, Deny []netip.Prefix

	// MaxWait is how long a request may be delayed until it fits, under any algorithm; at
	// most sluice.MaxWait. Zero leaves it to the rules, and to limits that queue, such as
	// a leaky bucket. The least of these applies, and nothing is delayed past the
	// deadline of the request's context.
	MaxWait time.Duration
	// Queue bounds how many requests are delayed at once. Fronts may share one.
	// Nil means a [Queue] of its own, of 10,000 places.
	Queue *Queue
	// OnDelay, if not nil, is called when the delay of a request begins. It returns the
	// context of the delay, and a function that is called when the delay is over: for a
	// protocol in which a client's leave ends no context by itself. If the context's
	// cause is a [*PartError], the request is refused for it.
	OnDelay func(ctx context.Context, a Attributes) (context.Context, func())
	// OnDecision, if not nil, is called once for every request, before it may pass. A
	// delayed request is reported after its delay, and one whose body is charged while it
	// is read by [Call.Settle], as the body may yet be denied. A copy of the Event may be
	// kept. It must be safe for concurrent use and quick.
	OnDecision func(ctx context.Context, a Attributes, e *Event)
	// OnError, if not nil, is called with every error of the store, and of a function of a
	// rule that is not the client's fault. It also receives errors after the response,
	// [ErrExpired] and, with empty [StaticAttributes], failures to cancel an instant that no
	// request waits for. It must be safe for concurrent use and quick. Nil logs errors to
	// slog.Default, at most one a second.
	OnError func(ctx context.Context, a Attributes, err error)
	// Now decides which overrides have expired. Nil means time.Now.
	Now func() time.Time
}

// ErrNotAdmitted is the error of a refused request whose client is not admitted by Allow
// and Deny.
var ErrNotAdmitted = errors.New("requests from this network are not allowed")

// Front connects a protocol to an [Evaluator], in the same way for every protocol: it finds
// the client behind proxies, decides, delays requests in a bounded queue, and keeps their
// slots in flight while they run. The server of the protocol gives it [Attributes] and
// writes the answer. It does not change, is safe for concurrent use and holds no state of
// its own, which is in the store. For another policy make another Front.
type Front struct {
	opts      FrontOptions
	evaluator Evaluator
	finder    *clientip.Finder
	clients   clientip.Admission
	// identity distinguishes the stores of the fronts that share a Queue.
	identity any
	log      sampledlog.Log
}

// NewFront returns a Front, or an error that joins all faults of o.
func NewFront(o FrontOptions) (*Front, error) {
	if o.Name == "" {
		o.Name = "policy"
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
		compiled, err := Compile(o.Rules)
		if err != nil {
			fault("Rules: %w", err)
		}
		o.Policy = compiled
	}
	if o.MaxWait < 0 || o.MaxWait > sluice.MaxWait {
		fault("MaxWait: %v must be 0 to %v", o.MaxWait, sluice.MaxWait)
	}
	finder, err := clientip.New(clientip.Options{Trusted: o.Trusted, Header: o.ClientHeader, Hops: o.ClientHops})
	if err != nil {
		fault("client address: %w", err)
	}
	if o.Policy != nil {
		for i := range o.Policy.Len() {
			if why := o.unfit(o.Policy.Rule(i)); why != "" {
				fault("rule %q %s", o.Policy.Rule(i).Name, why)
			}
		}
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	if o.Queue == nil {
		o.Queue = NewQueue(bounds.DefaultQueue)
	}
	f := &Front{
		opts: o, finder: finder, clients: clientip.NewAdmission(o.Allow, o.Deny),
		log: sampledlog.Log{Logger: slog.Default(), Part: o.Name},
	}
	f.evaluator = Evaluator{Policy: o.Policy, Store: o.Store, Slots: o.Slots, MaxWait: o.MaxWait, Now: o.Now, front: f}
	if f.identity = o.Store; !reflect.ValueOf(o.Store).Comparable() {
		f.identity = f
	}
	return f, nil
}

// unfit returns why a rule does not fit the front, "" if it does.
func (o *FrontOptions) unfit(r *Rule) string {
	inFlight := slices.ContainsFunc(r.Levels, func(l Level) bool { return l.InFlight != nil })
	switch {
	case o.NoBodies && r.Shape:
		return "slows bodies down, and there are none here; let it deny, or delay with MaxWait"
	case o.NoResponses && (r.When != nil || inFlight || r.Cost.Afterwards() && r.Cost.Of != RequestBytes):
		return "waits for a response or limits what is in flight, and there is no response here; let it charge when the request comes"
	default:
		return ""
	}
}

// Client returns the address of a request's client: the peer's or, if the peer is a trusted
// proxy, the one in its header. lines returns the lines of a header field by its canonical
// name.
func (f *Front) Client(peer netip.Addr, lines func(name string) []string) netip.Addr {
	return f.finder.Behind(peer, lines)
}

// Admits reports whether Allow and Deny admit a client. The zero Addr is a client whose
// address is not known.
func (f *Front) Admits(client netip.Addr) bool { return f.clients.Admits(client) }

// Decide decides a request, and blocks while it is delayed. It puts the outcome into c,
// which may have been used before. If the request passes, [Call.Settle] must follow
// once its response is known.
func (f *Front) Decide(ctx context.Context, a Attributes, c *Call) {
	if c.stop != nil { // the last use was not settled
		c.stop()
	}
	c.front, c.stop, c.body, c.unreported, c.evaluated.Allowed = f, nil, nil, false, false
	decided := false
	defer c.drop(ctx, &decided)
	f.decide(ctx, a, c)
	if f.opts.OnDecision != nil {
		if c.unreported = c.metered(); !c.unreported {
			f.opts.OnDecision(ctx, a, &c.Event)
		}
	}
	if decided = true; !c.Passes() {
		return
	}
	if c.evaluated.timed() {
		c.passed = time.Now() //nolint:forbidigo // no decision is computed of it
	}
	if lease := c.evaluated.Lease(); lease > 0 { // not before the hook, which may panic
		c.stop = f.renew(ctx, &c.evaluated, lease)
	}
}

func (f *Front) decide(ctx context.Context, a Attributes, c *Call) {
	if !f.Admits(a.Client()) {
		c.Event = Event{Verdict: Refused, Err: ErrNotAdmitted}
		return
	}
	if err := caller.Left(ctx); err != nil {
		c.Event = Event{Verdict: Abandoned, Err: err}
		return
	}
	f.evaluator.Decide(ctx, a, &c.evaluated)
	f.conclude(ctx, a, a, c)
}

// conclude sets the Event that follows from the verdict, and blocks while the request is
// delayed. OnDelay is called with held.
func (f *Front) conclude(ctx context.Context, a, held Attributes, c *Call) {
	v := &c.evaluated
	c.conclude(ctx)
	if v.Err != nil && c.Verdict != Abandoned { // a store that gave up because the client left has not failed
		f.Report(ctx, a, v.Err)
	}
	if c.Passes() && v.Decision.Delay > 0 {
		c.hold(ctx, held)
	}
	c.pass()
	if v.waiter != nil { // it does not pass
		v.vacate(ctx)
	}
	v.leaveQueue()
}

// Report passes an error to OnError or, without one, to the log. A nil error is ignored.
func (f *Front) Report(ctx context.Context, a Attributes, err error) {
	switch {
	case err == nil:
	case f.opts.OnError != nil:
		f.opts.OnError(ctx, a, err)
	default:
		f.log.Error(ctx, "rate limit store failed", err)
	}
}
