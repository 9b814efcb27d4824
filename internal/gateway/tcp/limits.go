// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
)

// Limits are what a [Server] lets each client do. The zero Limits let
// everything pass.
type Limits struct {
	// Rate, if not nil, is charged 1 for every connection. A connection is let
	// in at once or not at all, so a leaky bucket must not delay: nodelay.
	Rate *sluice.Plan
	// Bytes, if not nil, is charged every byte that passes, in both directions
	// and of all connections of a key. Its limits must each grant at least
	// MinBytes at once, so that bytes need not go one by one.
	Bytes *sluice.Plan
	// Open is how many connections a key may hold at once; a Cap of 0 means any
	// number. A TTL of 0 means a minute: after so long the connections of a
	// front server that died count no more.
	Open sluice.SlotLimit
	// Scope names the budget of Open. Empty means "tcp".
	Scope string

	// Key returns under which key a client is charged. Nil means its address,
	// and of IPv6 the network of 64 bits.
	Key func(netip.Addr) string
	// Exempt, if not nil, says to whom the limits do not apply.
	Exempt func(netip.Addr) bool
	// FailClosed resets connections that could not be decided, as the store had
	// an error. By default they pass, and their bytes as well.
	FailClosed bool
}

// MinBytes is the least that a limit on bytes must grant at once.
const MinBytes = 256

// terms are on what a server passes connections on. They do not change: others
// take their place.
type terms struct {
	Limits
	upstream string
	slots    *sluice.Slots // nil: any number
	chunk    int           // most bytes at once
}

// newTerms checks an upstream and limits, with all their faults, and fills in
// what they leave out.
func newTerms(o *Options, upstream string, l Limits) (*terms, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("tcp: "+format, args...)) }
	if _, port, err := net.SplitHostPort(upstream); o.gate == nil && (err != nil || port == "") {
		fault("Upstream: %q is not of the form host:port; use for example 127.0.0.1:5432", upstream)
	}
	if o.Store == nil && (l.Rate != nil || l.Bytes != nil) {
		fault("Store is nil, but Rate or Bytes need one; make one, such as memstore.New(memstore.Options{})")
	}
	if o.SlotStore == nil && l.Open.Cap != 0 {
		fault("SlotStore is nil, but Open needs one; make one, such as memstore.New(memstore.Options{})")
	}
	if l.Rate != nil && l.Bytes != nil && l.Rate.Scope() == l.Bytes.Scope() {
		fault("Rate and Bytes both have the scope %q, so that they may charge one key; give each its own", l.Rate.Scope())
	}
	for t := range eachTerm(l.Rate) {
		if t.Queues() {
			fault("Rate: the limit %q delays, but a connection is let in at once or not at all; use nodelay", t.Name)
		}
	}
	for t := range eachTerm(l.Bytes) {
		if t.Full() < MinBytes {
			fault("Bytes: the limit %q grants at most %d bytes at once; it must be %d or more, so write a burst", t.Name, t.Full(), MinBytes)
		}
	}
	if l.Scope == "" {
		l.Scope = "tcp"
	}
	if l.Open.TTL == 0 {
		l.Open.TTL = time.Minute
	}
	if l.Key == nil {
		finder, err := clientip.New(clientip.Options{})
		if err != nil {
			faults = append(faults, err)
		} else {
			l.Key = finder.Group
		}
	}
	t := &terms{Limits: l, upstream: upstream, chunk: chunkOf(l.Bytes)}
	if l.Open.Cap != 0 && o.SlotStore != nil {
		var err error
		if t.slots, err = sluice.NewSlots(o.SlotStore, l.Scope, l.Open); err != nil {
			fault("Open: %w", err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return t, nil
}

// exempt reports whether no limit applies to a client.
func (t *terms) exempt(client netip.Addr) bool { return t.Exempt != nil && t.Exempt(client) }

// eachTerm returns the terms of a plan, which may be nil.
func eachTerm(p *sluice.Plan) func(yield func(*sluice.Term) bool) {
	return func(yield func(*sluice.Term) bool) {
		for i := 0; p != nil && i < p.Len(); i++ {
			if !yield(p.Term(i)) {
				return
			}
		}
	}
}

// Change puts another upstream and other limits in the place of those that are.
// Connections that come from then on are decided under them; those that are
// there keep their upstream and their place, and their bytes wait under the new
// limits from the next of them on. If there is a fault nothing changes, and the
// error says all of them.
func (s *Server) Change(upstream string, l Limits) error {
	t, err := newTerms(&s.opts, upstream, l)
	if err != nil {
		return err
	}
	s.terms.Store(t)
	return nil
}
