// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// Domains of the hashes of slots, apart from each other and from scope IDs by
// the odds of a hash.
const (
	slotScopes = 0x736c6f742d73636f
	slotNames  = 0x736c6f742d6e616d
	slotOwners = 0x736c6f742d6f776e
)

// Slot decides req. Like Take it does not block or look at ctx. The limit's Cap
// and TTL may change from call to call: who holds slots keeps them. The error,
// if there is one, is a [*sluice.RequestError].
func (s *Store) Slot(_ context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if err := req.Validate(); err != nil {
		return sluice.SlotDecision{}, err
	}
	now := s.clock.now()
	scope := s.secret.sum(slotScopes, req.Scope)
	hash := s.secret.sum(scope, req.Key)
	id := identity(hash, termMask(s.secret.sum(slotNames, req.Limit.Name)))
	owner := s.secret.sum(slotOwners, req.Owner)
	sh := s.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.fresh(sh, now)
	var state algo.State
	t := &sh.tables[algo.SizeRing]
	i := sh.find(t, id, now)
	if i >= 0 {
		sh.read(t, i, &state)
	}
	live := i >= 0
	d, written := algo.DecideSlot(&req, owner, &state, now)
	denies := !d.Allowed && req.Op == sluice.SlotAcquire
	switch {
	case written:
		sh.storeSlots(id, now, &state, sh.slotClass(&req, id, live, denies))
	case live && denies:
		sh.mark(algo.SizeRing, id)
	}
	return d, nil
}

// slotClass returns the class of a key's slots that are about to be stored.
func (sh *shard) slotClass(req *sluice.SlotRequest, id uint64, live, denies bool) class {
	prior := used
	if t := &sh.tables[algo.SizeRing]; live {
		prior = t.class(t.find(id))
	}
	switch {
	case req.Key == "" && sh.keeps(prior):
		return kept
	case denies || prior == denied && req.Op != sluice.SlotAcquire:
		return denied
	default:
		return used
	}
}

// storeSlots keeps who holds the slots of a key, or forgets it if nobody does.
func (sh *shard) storeSlots(id uint64, now int64, s *algo.State, c class) {
	if s.Idle <= now {
		sh.forget(algo.SizeRing, id)
		return
	}
	sh.store(algo.SizeRing, id, now, nil, s, c, 0, nil)
}
