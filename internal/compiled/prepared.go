// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package compiled is what a Plan holds for the stores of this module alone: hashes,
// and what they have worked out from it. Plan of package sluice embeds [Plan] under an
// unexported name, so its methods are at hand in this module and no part of the
// public API.
package compiled

import "sync/atomic"

// Plan is what a Plan has beside its limits. The zero value has the ids 0, and
// nothing is kept of it.
type Plan struct {
	id, scopeID uint64
	plain       bool
	list        atomic.Pointer[[]kept] // of each [Prepared], the latest first
}

// SetIDs sets the ids of a Plan that nobody else has seen yet.
func (p *Plan) SetIDs(id, scopeID uint64) { p.id, p.scopeID = id, scopeID }

// SetPlain says whether there is one limit, under which a take looks at one word. As
// [Plan.SetIDs].
func (p *Plan) SetPlain(plain bool) { p.plain = plain }

// Plain reports what SetPlain has said.
func (p *Plan) Plain() bool { return p.plain }

// ID identifies the plan's limits, in their order, with scope and parameters,
// as the ID of a Term does each of them. It is not part of a stored format.
func (p *Plan) ID() uint64 { return p.id }

// ScopeID returns a hash of the scope, of 64 bits, without a secret.
func (p *Plan) ScopeID() uint64 { return p.scopeID }

// Compiled returns p: of a Plan that embeds it, what [Prepared] takes.
func (p *Plan) Compiled() *Plan { return p }

// Prepared keeps what its owner, such as a Store, has worked out from each
// Plan: beside that Plan, for as long as the Plan lives. The zero value is ready
// to use and safe for concurrent use. A Plan refers to the Prepared itself, so
// it should be allocated apart from all else that its owner has.
type Prepared[T any] struct {
	_ byte // gives each value its own address
}

// maxPrepared is for how many owners a Plan keeps something. Beyond it the one
// that came first must work it out anew.
const maxPrepared = 8

// kept is what a Plan keeps for an owner.
type kept struct{ owner, value any }

// Of returns what was kept of p. It takes no lock.
func (o *Prepared[T]) Of(p *Plan) (value T, ok bool) {
	if list := p.list.Load(); list != nil {
		for i := range *list {
			if k := &(*list)[i]; k.owner == any(o) {
				value, ok = k.value.(T)
				return value, ok
			}
		}
	}
	return value, false
}

// Keep keeps value of p, in the place of any other. Of several that are kept at
// once one stays.
func (o *Prepared[T]) Keep(p *Plan, value T) {
	for {
		before := p.list.Load()
		list := []kept{{o, value}}
		for i := 0; before != nil && i < len(*before) && len(list) < maxPrepared; i++ {
			if k := (*before)[i]; k.owner != any(o) {
				list = append(list, k)
			}
		}
		if p.list.CompareAndSwap(before, &list) {
			return
		}
	}
}
