// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package compiled has the part of a Plan that is only for the stores of this module: hashes,
// and values that stores have derived from it. Plan of package sluice embeds [Plan] under an
// unexported name, so its fields can be used in this module and are not part of the public
// API.
package compiled

import "sync/atomic"

// Plan has the fields of a Plan beside its limits. Only Kept changes once a Plan is compiled.
type Plan struct {
	// ID identifies the plan's limits, in their order, with scope and parameters, as the ID of
	// a Term does each of them. It is not part of a stored format.
	ID uint64
	// ScopeID is a hash of the scope, of 64 bits, without a secret.
	ScopeID uint64
	// Plain says that there is one limit, and that a take under it needs only one word.
	Plain bool
	// Kept holds values that stores have derived from the Plan.
	Kept Kept
}

// Kept holds a value for each [Prepared]. The zero value holds none.
type Kept struct{ list atomic.Pointer[[]kept] } // the latest first

// Prepared maps each Plan to a value that its owner, such as a Store, derives from it. A value
// lives as long as its Plan. The zero value is ready to use and safe for concurrent use. A Plan
// refers to the Prepared itself, so it should be allocated apart from the other data of its
// owner.
type Prepared[T any] struct {
	_ byte // gives each value its own address
}

// maxPrepared is the number of owners for which a Plan keeps a value. With more, the first
// owner must derive its value anew.
const maxPrepared = 8

// kept is a value that a Plan keeps for an owner.
type kept struct{ owner, value any }

// Of returns the value kept in a Plan. It takes no lock.
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

// Keep keeps value in a Plan, in place of any other. Of several concurrent calls one value
// stays.
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
