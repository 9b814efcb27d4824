// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// Domains of the hashes of slots. They differ from each other, and from scope IDs but
// for a collision of hashes.
const (
	slotScopes = 0x736c6f742d73636f
	slotNames  = 0x736c6f742d6e616d
	slotOwners = 0x736c6f742d6f776e
)

// Slot decides req. Like Take it waits only for other calls, so it ignores ctx. The
// limit's Cap and TTL may change from call to call: holders keep their slots. The error,
// if there is one, is a [*sluice.RequestError].
func (s *Store) Slot(_ context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if err := req.Validate(); err != nil {
		return sluice.SlotDecision{}, err
	}
	now := s.clock.now()
	h := s.holders(&req)
	h.shard = s.lock(s.part(h.hash))
	defer h.shard.mu.Unlock()
	return h.decide(req.Op, s.fresh(h.shard, now), nil), nil
}

// holders locates the holders of the slots of a request's key.
type holders struct {
	req             *sluice.SlotRequest
	shard           *shard // set once it is locked
	hash, id, owner uint64
}

func (s *Store) holders(req *sluice.SlotRequest) holders {
	scope := s.secret.Sum(slotScopes, req.Scope)
	hash := s.secret.Sum(scope, req.Key)
	return holders{
		req: req, hash: hash,
		id:    identity(hash, termMask(s.secret.Sum(slotNames, req.Limit.Name))),
		owner: s.secret.Sum(slotOwners, req.Owner),
	}
}

// decide decides the request with the operation op. The caller holds the shard's lock.
func (h *holders) decide(op sluice.SlotOp, now int64, keep pins) sluice.SlotDecision {
	sh, req := h.shard, *h.req
	req.Op = op
	var state algo.State
	t := &sh.tables[sizeRing]
	i := sh.find(t, h.id, now)
	if i >= 0 {
		sh.read(t, i, &state)
	}
	live := i >= 0
	d, written := algo.DecideSlot(&req, h.owner, &state, now)
	denies := !d.Allowed && h.req.Op == sluice.SlotAcquire
	switch {
	case written:
		h.store(now, &state, h.class(live, denies), keep)
	case live && denies:
		sh.mark(sizeRing, h.id)
	}
	return d
}

// allow reports whether the slot of req is free. It does not acquire it.
func (h *holders) allow(req *sluice.Request, now int64) bool {
	req.Slot.Decision = sluice.SlotDecision{}
	if d := h.decide(sluice.SlotPeek, now, nil); !d.Allowed {
		req.Slot.Decision = d
		return false
	}
	return true
}

// class returns the class for the holders of a key that are about to be stored.
func (h *holders) class(live, denies bool) class {
	prior := used
	if t := &h.shard.tables[sizeRing]; live {
		prior = t.class(t.find(h.id))
	}
	switch {
	case h.req.Key == "" && h.shard.keeps(prior):
		return kept
	case denies || prior == denied && h.req.Op != sluice.SlotAcquire:
		return denied
	default:
		return used
	}
}

// store keeps the holders of the slots of a key, or deletes the entry if there are none.
func (h *holders) store(now int64, s *algo.State, c class, keep pins) {
	if s.Idle <= now {
		h.shard.forget(sizeRing, h.id)
		return
	}
	h.shard.store(sizeRing, h.id, now, nil, s, c, 0, keep)
}
