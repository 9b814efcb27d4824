// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// Options say how a [Guard] judges. Policy, Store and Next are required; every
// other zero field means what it says.
type Options struct {
	Policy *policy.Policy
	Store  sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it can.
	Slots sluice.SlotStore
	// Next answers what is let through.
	Next http.Handler

	// Trusted are the proxies whose ClientHeader is believed, by default
	// X-Forwarded-For. None are by default: a client is who connects.
	Trusted      []netip.Prefix
	ClientHeader string
	// Claims, if not nil, verifies the token of a request and returns what
	// looks its claims up, nil if it has none. It is called once for each
	// request, and only if a rule needs a claim.
	//
	// An error means that the token cannot be used, whatever else is returned:
	// the request is answered with 401. That of what looks claims up means the
	// same if it is a [*policy.TokenError]; otherwise that the claim cannot be
	// used, which is answered with 400. The client reads the problem of a
	// TokenError and of a [*policy.ClaimError]. Of other errors it reads nothing
	// but that the token cannot be verified, or the claim not be read: OnError is
	// called with these.
	Claims func(*http.Request) (func(name string) (string, error), error)
	// TokenRequired answers a request with 401 that has no token, and for which a
	// rule needs a claim, whatever the rule says of requests without one.
	TokenRequired bool

	// Allow, if not empty, are the only networks from which clients are let in;
	// Deny are those from which they are not, whatever Allow says. Who is turned
	// away is answered with 403 before anything is decided.
	Allow, Deny []netip.Prefix

	// Fields are the header fields of the answers. Zero means [httplimit.Draft11].
	Fields httplimit.Fields
	// Queue bounds how many requests are held back at once. Guards that follow
	// one another may share one. Nil means a [Queue] of its own, of
	// DefaultQueue places.
	Queue *Queue
	// Own, if not nil, answers at [OwnPath]: see [NewOwn].
	Own *Own

	// OnVerdict, if not nil, is called once for each request that was judged,
	// before it is passed on or answered. The verdict is valid only until it
	// returns. It must be safe for concurrent use and quick.
	OnVerdict func(*policy.Verdict)
	// OnError, if not nil, is called with every error of the store, also with
	// those after the response, when a slot in flight has expired, and with
	// errors of Claims that clients do not read. It must be safe for concurrent
	// use and quick.
	OnError func(*http.Request, error)
	// Now says which overrides have expired. Nil means time.Now.
	Now func() time.Time
}

// Guard is an [http.Handler] that judges requests under one policy and passes
// on what it allows. It does not change and is safe for concurrent use: for
// another policy make another Guard, which finds the states in the store.
type Guard struct {
	opts    Options
	judge   policy.Evaluator
	finder  *clientip.Finder
	clients clientip.Admission
	names   names
	cases   sync.Pool // of *request
}

// New returns a Guard, or every fault of o joined.
func New(o Options) (*Guard, error) {
	var faults []error
	for _, f := range []struct {
		missing bool
		name    string
	}{{o.Policy == nil, "Policy"}, {o.Store == nil, "Store"}, {o.Next == nil, "Next"}} {
		if f.missing {
			faults = append(faults, fmt.Errorf("guard: %s is nil", f.name))
		}
	}
	finder, err := clientip.New(clientip.Options{Trusted: o.Trusted, Header: o.ClientHeader})
	if err != nil {
		faults = append(faults, fmt.Errorf("guard: client address: %w", err))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if o.Queue == nil {
		o.Queue = NewQueue(DefaultQueue)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Guard{opts: o, finder: finder, clients: clientip.NewAdmission(o.Allow, o.Deny)}
	g.cases.New = func() any { return new(request) }
	var live policy.Live
	live.Swap(o.Policy)
	g.judge = policy.Evaluator{Policy: &live, Store: o.Store, Slots: slotsOf(&o), Now: o.Now}
	return g, nil
}

// ServeHTTP judges the request and passes it on or answers it. It blocks as
// long as the request is held back and then as long as Next does.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, known := g.finder.Client(r.RemoteAddr, r.Header)
	r = wire.EndToEnd(r) // Next does not pass on what it leaves out
	if !known {
		client = netip.Addr{}
	}
	if !g.Admits(client) {
		refuse(w, r, http.StatusForbidden, errForbidden)
		return
	}
	if fault := wire.Fault(r); fault != "" {
		refuse(w, r, http.StatusBadRequest, errors.New(fault))
		return
	}
	c, ok := g.cases.Get().(*request)
	if !ok {
		c = new(request)
	}
	defer g.release(c)
	c.begin(g, w, r, client)
	if g.opts.Own != nil && r.URL.Path == OwnPath {
		g.opts.Own.serve(w, r, &c.attributes.HTTP, client)
		return
	}
	c.serve() //nolint:contextcheck // it takes the context of the request
}

// Admits reports whether Allow and Deny let a client in. The zero Addr is one
// whose address is not known.
func (g *Guard) Admits(client netip.Addr) bool {
	return g.clients.Admits(client)
}

// release keeps c for another request, without what belongs to this one.
func (g *Guard) release(c *request) {
	c.end()
	g.cases.Put(c)
}

func (g *Guard) report(r *http.Request, err error) {
	if err != nil && g.opts.OnError != nil {
		g.opts.OnError(r, err)
	}
}

// refuse answers a request that is not judged at all.
func refuse(w http.ResponseWriter, r *http.Request, status int, why error) {
	httplimit.WriteProblem(w, r, httplimit.Event{Verdict: httplimit.Refused, Status: status, Err: why})
}

var errForbidden = errors.New("clients from this network are not let in")
