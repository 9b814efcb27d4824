// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"slices"

	"github.com/sluicegate/sluice"
)

// perBatch is how many refunds are sent at once.
const perBatch = 256

// giveBack refunds all units in hand, for a process that is about to end and takes no more. A
// later take leases anew. It sends batches of bounded size until all are
// sent, ctx ends or the store fails, and returns the errors joined. Units that could not be
// sent stay counted until they expire.
func (n *near) giveBack(ctx context.Context) error {
	var faults []error
	for i := range n.shards {
		sh := &n.shards[i]
		for reqs := range slices.Chunk(sh.surrender(n.clock()), perBatch) {
			faults = append(faults, n.refund(ctx, sh, reqs))
		}
	}
	return errors.Join(faults...)
}

// surrender returns refunds for all units that the shard's entries have in hand, which
// can no longer be spent.
func (sh *shard) surrender(at moment) []sluice.Request {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var reqs []sluice.Request
	for _, e := range sh.entries {
		for l := e.leases; l != nil; l = l.next {
			l.expire(at)
			for i := range l.grants { // also those before an edge
				l.refunds = append(l.refunds, l.refund(&l.grants[i]))
			}
			l.grants = nil
			reqs = append(reqs, l.takeRefunds()...)
		}
		e.forgetDenials()
		sh.settle(e)
	}
	return reqs
}

func (n *near) refund(ctx context.Context, sh *shard, reqs []sluice.Request) error {
	out := make([]sluice.Result, len(reqs))
	err := ctx.Err()
	if err == nil {
		bounded := n.store.bound(ctx)
		err = n.store.askBatch(bounded, reqs, out)
		end(bounded)
	}
	for i := range reqs {
		n.forget(&reqs[i])
	}
	return sh.returned(reqs, out, err)
}

// returned counts the units of refunds as returned, or as lost if they could not be
// sent. It returns the errors joined.
func (sh *shard) returned(refunds []sluice.Request, out []sluice.Result, err error) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	faults := []error{err}
	for i := range refunds {
		became := &sh.leases.Returned
		if err != nil || out[i].Err != nil {
			became = &sh.leases.Lost
			faults = append(faults, out[i].Err)
		}
		*became += uint64(refunds[i].Cost)
	}
	return errors.Join(faults...)
}
