// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/sluicegate/sluice"
)

// stateSize is the part of an algo.State that a state needs.
type stateSize uint8

const (
	sizeWord  stateSize = iota // Idle and a small A
	sizeFixed                  // all fields but the ring
	sizeRing                   // all fields
	sizePair                   // Idle, a small A and a small B; sizeFixed in a snapshot
)

// sizeOfForm returns the size for states of t's form; sizeOf may choose another for a
// single state.
func sizeOfForm(t *sluice.Term) stateSize {
	switch {
	case t.OneWord:
		return sizeWord
	case t.Ring:
		return sizeRing
	}
	return sizeFixed
}
