// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

// Prepared keeps what its owner, such as a [Store], has worked out from each
// Plan: beside that Plan, for as long as the Plan lives. The zero value is ready
// to use and safe for concurrent use. A Plan refers to the Prepared itself, so
// it should be allocated apart from all else that its owner has.
type Prepared[T any] struct {
	_ byte // tells it apart by its address
}

// maxPrepared is for how many owners a Plan keeps something. Beyond it the one
// that came first must work it out anew.
const maxPrepared = 8

// kept is what a Plan keeps for an owner.
type kept struct{ owner, value any }

// Of returns what was kept of p. It takes no lock.
func (o *Prepared[T]) Of(p *Plan) (value T, ok bool) {
	if list := p.kept.Load(); list != nil {
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
		before := p.kept.Load()
		list := []kept{{o, value}}
		for i := 0; before != nil && i < len(*before) && len(list) < maxPrepared; i++ {
			if k := (*before)[i]; k.owner != any(o) {
				list = append(list, k)
			}
		}
		if p.kept.CompareAndSwap(before, &list) {
			return
		}
	}
}
