// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"

	"github.com/sluicegate/sluice"
)

// perBatch is how many refunds Return sends at once.
const perBatch = 256

// Return gives back all units in hand: for a process about to end, which should
// have stopped taking by then. A take after it leases anew. It sends batches of
// bounded size until all is sent, ctx ends or the store fails, and returns the
// errors joined. What could not be sent counts until it is forgotten.
func (s *Store) Return(ctx context.Context) error {
	var faults []error
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		reqs := sh.surrender(s.clock())
		for len(reqs) > 0 {
			n := min(len(reqs), perBatch)
			if err := s.refund(ctx, sh, reqs[:n]); err != nil {
				faults = append(faults, err)
			}
			reqs = reqs[n:]
		}
	}
	return errors.Join(faults...)
}

// surrender takes all that the shard's entries have in hand. From then on none
// of it can be spent.
func (sh *shard) surrender(at moment) []sluice.Request {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var reqs []sluice.Request
	for _, e := range sh.entries {
		e.expire(at)
		e.spare = append(e.spare, e.parcels...) // before an edge they are worth it too
		e.parcels = nil
		mine := e.spares()
		for i := range mine {
			sh.stats.Returned += uint64(mine[i].Cost)
		}
		reqs = append(reqs, mine...)
		sh.settled(e)
	}
	return reqs
}

func (s *Store) refund(ctx context.Context, sh *shard, reqs []sluice.Request) error {
	out := make([]sluice.Result, len(reqs))
	err := ctx.Err()
	if err == nil {
		err = sluice.TakeBatch(ctx, s.store, reqs, out)
	}
	return sh.returned(reqs, out, err)
}

// returned notes which units of refunds, counted as given back, were lost, as they
// could not be sent. It returns the errors joined.
func (sh *shard) returned(refunds []sluice.Request, out []sluice.Result, err error) error {
	faults := []error{err}
	for i := range refunds {
		if err != nil || out[i].Err != nil {
			faults = append(faults, out[i].Err)
			sh.mu.Lock()
			sh.stats.Returned -= uint64(refunds[i].Cost)
			sh.stats.Lost += uint64(refunds[i].Cost)
			sh.mu.Unlock()
		}
	}
	return errors.Join(faults...)
}
