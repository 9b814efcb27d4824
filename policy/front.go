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

// FrontOptions say what a [Front] does. Store is required, and one of Rules and
// Policy; every other zero field means what it says.
type FrontOptions struct {
	// Name is the front's, with which its errors and its lines in the log begin.
	// Empty means "policy".
	Name string

	Store sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it can.
	Slots sluice.SlotStore
	// Rules are what a request is charged: all that match it, or none.
	Rules []Rule
	// Policy are rules that have been compiled already, such as those of a file
	// that package config has read.
	Policy *Policy

	// NoBodies refuses rules that shape: the protocol has no bodies to slow down.
	NoBodies bool
	// NoResponses refuses rules that wait for a response or limit what is in
	// flight: the protocol has no response.
	NoResponses bool

	// Trusted are the proxies whose ClientHeader is trusted, by default
	// X-Forwarded-For. None are by default: a client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known, and
	// excludes Trusted: the client's address is the one at this place in ClientHeader,
	// counted from the right, which the nearest proxy writes to. Where there are fewer
	// it is the peer's. Clients must not reach the front but through so many
	// proxies: one that does chooses its own address.
	ClientHops int
	// Allow, if not empty, are the only networks from which clients are let in;
	// Deny are those from which they are not, whatever Allow says. A client that is turned
	// away is refused with [ErrNotAdmitted] before anything is decided.
	Allow, Deny []netip.Prefix

	// MaxWait is how long a request may be delayed until it fits, whatever
	// the algorithm; at most sluice.MaxWait. Zero leaves it to the rules, and to
	// limits that queue, such as a leaky bucket. The least of all counts, and
	// nothing is delayed past the deadline of the request's context.
	MaxWait time.Duration
	// Queue bounds how many requests are delayed at once. Fronts may share one.
	// Nil means a [Queue] of its own, of 10,000 places.
	Queue *Queue
	// OnDelay, if not nil, is called when a request begins to be delayed, and
	// returns the context under which it is, and what to call when that is over:
	// for a protocol in which a client's leave ends no context by itself. If the
	// cause of its end is a [*PartError], the request is refused for that.
	OnDelay func(ctx context.Context, a Attributes) (context.Context, func())
	// OnDecision, if not nil, is called once for every request, before it may pass;
	// for one that is delayed, after that; for one whose body is charged while it is read,
	// by [Call.Settle], as the body may yet be denied. A copy of the Event may be kept. It must
	// be safe for concurrent use and should be quick.
	OnDecision func(ctx context.Context, a Attributes, e *Event)
	// OnError, if not nil, is called with every error of the store, and of a
	// function of a rule that is not the client's fault; also with those after the
	// response, when a slot in flight has expired, and, with a [*Plain] of nothing,
	// when an instant that nobody waits for could not be cancelled. It must be safe
	// for concurrent use and quick. Nil logs them to slog.Default, at most one a second.
	OnError func(ctx context.Context, a Attributes, err error)
	// Now says which overrides have expired. Nil means time.Now.
	Now func() time.Time
}

// ErrNotAdmitted is why a request is refused whose client's network may not use
// the front at all.
var ErrNotAdmitted = errors.New("requests from this network are not allowed")

// Front is what stands between a protocol and an [Evaluator], the same for every
// protocol: it finds the client behind proxies, decides, delays requests in a
// bounded queue, keeps their slots in flight while they run, and says what to report
// the client. The server of the protocol gives it [Attributes] and writes the
// answer. It does not change, is safe for concurrent use and holds no state of its
// own: that is the store's. For another policy make another Front.
type Front struct {
	opts      FrontOptions
	evaluator Evaluator
	finder    *clientip.Finder
	clients   clientip.Admission
	// identity distinguishes the stores of a Queue's fronts.
	identity any
	log      sampledlog.Log
}

// NewFront returns a Front, or every fault of o joined.
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

// unfit returns why a rule is none for the front, "" if it is one.
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

// Client returns the address of a request's client: that of the connection's other
// end, unless that is a trusted proxy, whose header says it. The lines of a header
// field are asked for by its canonical name.
func (f *Front) Client(peer netip.Addr, lines func(name string) []string) netip.Addr {
	return f.finder.Behind(peer, lines)
}

// Admits reports whether Allow and Deny let a client in. The zero Addr is one whose
// address is not known.
func (f *Front) Admits(client netip.Addr) bool { return f.clients.Admits(client) }

// Decide decides a request, and blocks while it is delayed. The outcome of it is
// in c, which may have been used before. If it passes, [Call.Settle] must follow
// once its response is known.
func (f *Front) Decide(ctx context.Context, a Attributes, c *Call) {
	if c.stop != nil { // nobody has settled the last use
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
// delayed. OnDelay gets held as its attributes.
func (f *Front) conclude(ctx context.Context, a, held Attributes, c *Call) {
	v := &c.evaluated
	c.conclude(ctx)
	if v.Err != nil && c.Verdict != Abandoned { // a store that gave up because the client did has not failed
		f.Report(ctx, a, v.Err)
	}
	if c.Passes() && v.Decision.Delay > 0 {
		c.hold(ctx, held)
	}
	c.pass()
	if v.waiter != nil { // it goes no further
		v.vacate(ctx)
	}
	v.leaveQueue()
}

// Report hands an error to OnError, or else to the log. A nil one is none.
func (f *Front) Report(ctx context.Context, a Attributes, err error) {
	switch {
	case err == nil:
	case f.opts.OnError != nil:
		f.opts.OnError(ctx, a, err)
	default:
		f.log.Error(ctx, "rate limit store failed", err)
	}
}
