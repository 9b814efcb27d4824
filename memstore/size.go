// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// stateSize is how much of an algo.State the states of a limit use.
type stateSize uint8

const (
	sizeWord  stateSize = iota // Idle, and an A that is not large
	sizeFixed                  // all but the ring
	sizeRing                   // all of it
	sizePair                   // Idle, an A and a B that are not large; sizeFixed in a snapshot
)

// sizeOfForm returns the size that every state of t's form has, or may have: see sizeOf.
func sizeOfForm(t *sluice.Term) stateSize {
	switch {
	case t.OneWord:
		return sizeWord
	case algo.HasRing(t):
		return sizeRing
	}
	return sizeFixed
}
