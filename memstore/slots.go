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
	word, live := sh.load(algo.FormRing, id, now, &state)
	d, written := algo.DecideSlot(&req, owner, &state, now)
	p := place{shard: sh, id: id, form: algo.FormRing, empty: req.Key == "", live: live, word: word}
	p.classifySlot(req.Op, d.Allowed, written)
	if written {
		sh.store(algo.FormRing, id, now, &state, p.class, nil)
	}
	return d, nil
}

// classifySlot is classify for a key's slots, which only an acquire takes.
func (p *place) classifySlot(op sluice.SlotOp, allowed, written bool) {
	prior, denies := classOf(p.word), !allowed && op == sluice.SlotAcquire
	switch {
	case !written:
		if denies && p.live && prior&shielded == 0 {
			p.mark()
		}
	case p.empty && p.shard.keeps(prior):
		p.class = kept
	case denies, prior == denied && op != sluice.SlotAcquire:
		p.class = denied
	}
}
