// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import "github.com/sluicegate/sluice"

// Forget drops the remembered denials and the leased units in hand of the keys of charges, or
// of all keys without charges. It is for changes that another process has made in the store,
// such as a reset; changes made through the same Store need no Forget. Answers to calls in
// flight are not remembered.
func (s *Store) Forget(charges ...sluice.Charge) {
	if len(charges) == 0 {
		s.near.forgetAll()
	}
	for _, c := range charges {
		if _, err := s.near.infoOf(c.Plan); err == nil { // else no state of it is kept
			s.near.forget(&sluice.Request{Op: sluice.OpReset, Charge: c})
		}
	}
}

// forgetAll is forget for a reset of all keys.
func (n *near) forgetAll() {
	for i := range n.shards {
		sh := &n.shards[i]
		sh.mu.Lock()
		for _, e := range sh.entries {
			e.forgetDenials()
			e.dropUnits()
			sh.settle(e)
		}
		sh.mu.Unlock()
	}
}
