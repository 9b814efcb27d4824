// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
)

// forgetter gives this module access to forgetting.
type forgetter = stores.Forgetter

// forgetKeys implements [stores.Forgetter.Forget].
func (s *Store) forgetKeys(charges []sluice.Charge) {
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
