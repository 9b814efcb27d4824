// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"

	"github.com/sluicegate/sluice/algo"
)

// A snapshot of version 1 held each state under an identity of its own limit,
// and did not say which limit that was. They are kept under those, and looked
// for there where a key has no other state, until none can be alive.

// The kinds of state of version 1.
const (
	oneWord = iota
	onePair
	oneDuo
	oneTrio
	oneRing
)

func (rr *snapshotReader) stateOne(s *Store, kind byte) error {
	var state algo.State
	state.Reserved = kind&1 != 0
	id, err := rr.word()
	if err != nil {
		return err
	}
	for _, field := range []*int64{&state.Idle, &state.A, &state.B} {
		if *field, err = rr.varint(); err != nil {
			return err
		}
	}
	size := sizeFixed
	switch kind >> 1 {
	case oneWord:
		size = sizeWord
	case onePair, oneDuo, oneTrio:
	case oneRing:
		size = sizeRing
		if err := rr.ring(&state); err != nil {
			return err
		}
	default:
		return fmt.Errorf("damaged: a state of kind %d is not one", kind)
	}
	if id == 0 || !fits(size, &state, nil) {
		return fmt.Errorf("damaged: a state of kind %d is not one", kind)
	}
	rr.keep(s, size, id, nil, &state, used, 0)
	return nil
}

func (rr *snapshotReader) limitOne(s *Store) error {
	scope, term, used, err := rr.term()
	if err != nil {
		return err
	}
	v := s.registry.add(scope, term, used)
	ser := v.series
	ser.legacy = append(ser.legacy, v)
	ser.legacyUntil = max(ser.legacyUntil, rr.now+lifetime(term)+term.Micros)
	ser.sizes.Or(1 << sizeFixed) // so that new keys look
	return nil
}
