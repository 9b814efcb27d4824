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

// Limits are a [Server]'s limits for each client. The zero Limits admit everything.
type Limits struct {
	// Rate, if not nil, is charged 1 for every connection. A connection is admitted at once or
	// not at all, so a leaky bucket must not delay: nodelay.
	Rate *sluice.Plan
	// Bytes, if not nil, is charged every byte that passes, in both directions, over all
	// connections of a key. Each of its limits must grant at least MinBytes at once, so that
	// bytes need not go one by one.
	Bytes *sluice.Plan
	// Open bounds the connections of a key at once; a Cap of 0 means any number. A TTL of 0
	// means a minute: after it the connections of a crashed server count no more.
	Open sluice.SlotLimit
	// Scope names the budget of Open. Empty means "tcp".
	Scope string

	// Key returns the key to which a client is charged. Nil means its address, or for IPv6 its
	// network of 64 bits.
	Key func(netip.Addr) string
	// Exempt, if not nil, reports whether a client has no limits.
	Exempt func(netip.Addr) bool
	// Admit, if not nil, reports whether a client is admitted at all.
	Admit func(netip.Addr) bool
	// MaxConnections bounds the admitted connections of all clients at once; 0 means any number.
	// Connections above it are reset, as those above Options.Places are.
	MaxConnections int64
	// FailClosed resets connections that could not be decided for an error of the store. By
	// default they pass, with their bytes.
	FailClosed bool
}

// MinBytes is the least number of bytes that a limit must grant at once.
const MinBytes = 256

// terms are an upstream and limits. They are immutable: Change replaces them.
type terms struct {
	Limits
	upstream string
	slots    *sluice.Slots // nil: any number
	chunk    int           // most bytes at once
}

// newTerms checks an upstream and limits, returns all faults, and fills in defaults.
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
		if t.Queues {
			fault("Rate: the limit %q delays, but a connection is let in at once or not at all; use nodelay", t.Name)
		}
	}
	for t := range eachTerm(l.Bytes) {
		if t.Full < MinBytes {
			fault("Bytes: the limit %q grants at most %d bytes at once; it must be %d or more, so write a burst", t.Name, t.Full, MinBytes)
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

// exempt reports whether a client has no limits.
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

// Change replaces the upstream and the limits. They apply to new connections; existing ones
// keep their upstream and their slot, and their further bytes are under the new limits. If
// there are faults, nothing changes, and the error has all of them.
func (s *Server) Change(upstream string, l Limits) error {
	use, err := s.Prepare(upstream, l)
	if err == nil {
		use()
	}
	return err
}

// Prepare returns a function that does what [Server.Change] does and cannot fail.
func (s *Server) Prepare(upstream string, l Limits) (use func(), err error) {
	t, err := newTerms(&s.opts, upstream, l)
	if err != nil {
		return nil, err
	}
	return func() { s.terms.Store(t) }, nil
}
