// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package compiled is what a Plan holds for the stores of this module alone: hashes,
// and what they have worked out from it. Plan of package sluice embeds [Plan] under an
// unexported name, so its fields are at hand in this module and no part of the public API.
package compiled

import "sync/atomic"

// Plan is what a Plan has beside its limits. Only Kept changes once a Plan is compiled.
type Plan struct {
	// ID identifies the plan's limits, in their order, with scope and parameters, as the ID of
	// a Term does each of them. It is not part of a stored format.
	ID uint64
	// ScopeID is a hash of the scope, of 64 bits, without a secret.
	ScopeID uint64
	// Plain says that there is one limit, under which a take looks at one word.
	Plain bool
	// Kept is what stores have worked out from the Plan.
	Kept Kept
}

// Kept holds a value for each [Prepared]. The zero value holds none.
type Kept struct{ list atomic.Pointer[[]kept] } // the latest first

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

// Of returns what was kept in a Plan. It takes no lock.
func (o *Prepared[T]) Of(in *Kept) (value T, ok bool) {
	if list := in.list.Load(); list != nil {
		for i := range *list {
			if k := &(*list)[i]; k.owner == any(o) {
				value, ok = k.value.(T)
				return value, ok
			}
		}
	}
	return value, false
}

// Keep keeps value in a Plan, in the place of any other. Of several that are kept at
// once one stays.
func (o *Prepared[T]) Keep(in *Kept, value T) {
	for {
		before := in.list.Load()
		list := []kept{{o, value}}
		for i := 0; before != nil && i < len(*before) && len(list) < maxPrepared; i++ {
			if k := (*before)[i]; k.owner != any(o) {
				list = append(list, k)
			}
		}
		if in.list.CompareAndSwap(before, &list) {
			return
		}
	}
}
