// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
)

// Limits are a [Server]'s limits for each client, as package config has checked them. Limits
// with a Key alone admit everything.
type Limits struct {
	// Rate, if not nil, is charged 1 for every connection. A connection is admitted at once or
	// not at all, so a leaky bucket must not delay: nodelay.
	Rate *sluice.Plan
	// Bytes, if not nil, is charged every byte that passes, in both directions, over all
	// connections of a key. Each of its limits must grant many at once, so that bytes need
	// not go one by one.
	Bytes *sluice.Plan
	// Open bounds the connections of a key at once; a Cap of 0 means any number. A TTL of 0
	// means a minute: after it the connections of a crashed server count no more.
	Open sluice.SlotLimit
	// Scope names the budget of Open.
	Scope string

	// Key returns the key to which a client is charged.
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

// terms are an upstream and limits. They are immutable: a change replaces them.
type terms struct {
	Limits
	upstream string
	slots    *sluice.Slots // nil: any number
	chunk    int           // most bytes at once
}

// newTerms returns the terms of an upstream and limits.
func newTerms(o *Options, upstream string, l Limits) (t *terms, err error) {
	l.Open.TTL = cmp.Or(l.Open.TTL, time.Minute)
	t = &terms{Limits: l, upstream: upstream, chunk: chunkOf(l.Bytes)}
	if l.Open.Cap != 0 {
		if t.slots, err = sluice.NewSlots(o.SlotStore, l.Scope, l.Open); err != nil {
			return nil, fmt.Errorf("tcp: open: %w", err)
		}
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

// Prepare returns a function that replaces the upstream and the limits. They apply to new
// connections; existing ones keep their upstream and their slot, and their further bytes are
// under the new limits. After an error nothing has changed.
func (s *Server) Prepare(upstream string, l Limits) (use func(), err error) {
	t, err := newTerms(&s.opts, upstream, l)
	if err != nil {
		return nil, err
	}
	return func() { s.terms.Store(t) }, nil
}
