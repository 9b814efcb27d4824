// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// A value of leases is a byte with the version of the format, followed by the leases. A
// lease has 27 bytes: 16 for the owner, 7 for its end and 4 for its units. An owner is its
// length and its bytes or, if it is longer than 15 bytes or there is a secret, a mark and
// 15 bytes of its hash.
const (
	ownerBytes  = 15
	ownerHashed = 0xff
	ownerSecret = 0xfe
	leaseBytes  = 1 + ownerBytes + 7 + 4
)

func (k *keyer) owner(owner string) string {
	var b [1 + ownerBytes]byte
	switch {
	case len(k.secret) > 0:
		b[0] = ownerSecret
		copy(b[1:], k.hash(owner))
	case len(owner) > ownerBytes:
		b[0] = ownerHashed
		copy(b[1:], k.hash(owner))
	default:
		b[0] = byte(len(owner))
		copy(b[1:], owner)
	}
	return string(b[:])
}

// Slot decides one request for slots. It blocks for one round trip, for no
// longer than ctx or Options.Timeout.
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if err := req.Validate(); err != nil {
		return sluice.SlotDecision{}, err
	}
	if err := s.admit(ctx); err != nil {
		return sluice.SlotDecision{}, wrapSlot(&req, err)
	}
	defer s.pending.done()
	if ctx.Done() == nil {
		h, err := s.slot(s.bound(), &req) //nolint:contextcheck // ctx never ends
		return h.decision, wrapSlot(&req, err)
	}
	type result struct {
		holding
		err error
	}
	a := begin(s.bound(), s, func(ctx context.Context) result { //nolint:contextcheck // see leave.go
		h, err := s.slot(ctx, &req)
		return result{h, wrapSlot(&req, err)}
	})
	r, ok := a.wait(ctx)
	if ok {
		return r.decision, r.err
	}
	l := s.late(ctx, func(ctx context.Context, d *sluice.Decision) bool {
		return req.Op == sluice.SlotAcquire && d.Allowed && s.release(ctx, &req) == nil
	})
	a.leave(s, func(ctx context.Context, r result) {
		l.answer(ctx, sluice.Decision{Allowed: r.decision.Allowed && !r.before}, r.err)
	})
	return sluice.SlotDecision{}, wrapSlot(&req, l.gone)
}

func wrapSlot(req *sluice.SlotRequest, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisstore: slots %q: %w", req.Scope, err)
}

// holding is the result of a request for slots.
type holding struct {
	decision sluice.SlotDecision
	before   bool  // whether the owner held slots before
	until    int64 // the end of the lease before, 0 if there was none
	now      int64 // the server's instant
}

func (s *Store) slot(ctx context.Context, req *sluice.SlotRequest) (holding, error) {
	mode, now := int64(0), int64(0)
	if s.inject != nil {
		mode, now = 1, s.inject()
	}
	owner := s.keyer.owner(req.Owner)
	inv := newInvocation(s.programs.slots, []string{s.keyer.slots(req.Scope, req.Key, req.Limit.Name)},
		string(appendNumbers(nil, mode, now, int64(req.Op), req.Limit.TTL.Microseconds(),
			req.Limit.Cap, req.Cost, sluice.MaxWindow.Microseconds())), owner)
	res := inv.do(ctx, s)
	reply, err := res.list(3)
	if err != nil {
		return holding{}, err
	}
	if s.inject == nil {
		if now, err = serverTime(reply, 1); err != nil {
			return holding{}, err
		}
	}
	return heldAt(now, req, owner, reply, 0)
}

// heldAt decides a request of an owner over the leases in element i of a script's reply.
func heldAt(now int64, req *sluice.SlotRequest, owner string, reply []Reply, i int) (holding, error) {
	raw, err := reply[i].text()
	if err != nil {
		return holding{}, err
	}
	state, mine, err := parseLeases(raw, owner)
	if err != nil {
		return holding{}, err
	}
	look := *req
	look.Op, look.Cost = sluice.SlotPeek, look.Limit.Cap+1
	before, _ := algo.DecideSlot(&look, mine, &state, now)
	h := holding{before: before.Allowed, until: endOf(&state, mine), now: now}
	h.decision, _ = algo.DecideSlot(req, mine, &state, now)
	return h, nil
}

// endOf returns the end of an owner's lease, 0 if it has none.
func endOf(s *algo.State, owner uint64) int64 {
	for i := 0; i < s.Len; i += 3 { // see parseLeases
		if s.Ring[i] == owner {
			return int64(s.Ring[i+1])
		}
	}
	return 0
}

// parseLeases reads leases as a state in which owners are numbered, and returns the number
// of owner.
func parseLeases(raw, owner string) (algo.State, uint64, error) {
	var s algo.State
	if raw == "" {
		return s, 0, nil
	}
	if raw[0] != version {
		return s, 0, otherVersion(raw)
	}
	r := reader{s: raw[1:]}
	mine := uint64(len(raw)) // no other owner's number
	for n := uint64(0); r.s != "" && !r.past; n++ {
		if len(r.s) < leaseBytes {
			return algo.State{}, 0, errState
		}
		if r.s[:1+ownerBytes] == owner {
			mine = n
		}
		r.s = r.s[1+ownerBytes:]
		expires, units := r.int(7), r.int(4)
		s.Ring = append(s.Ring, n, uint64(expires), uint64(units))
		s.A += units
		s.Idle = max(s.Idle, expires)
	}
	s.Len = len(s.Ring)
	return s, mine, nil
}
