// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"

	"github.com/sluicegate/sluice"
)

// batch is the requests of a TakeBatch that the store is asked about.
type batch struct {
	store *Store
	parts []part
}

type part struct {
	index int // among the caller's requests
	job   *job
	call  *call // nil for what cannot be leased
}

// add decides a request here or makes it part of the batch.
func (b *batch) add(i int, req sluice.Request, out *sluice.Result) {
	s := b.store
	*out = sluice.Result{}
	j := new(job)
	if *j, out.Err = s.ready(req); out.Err != nil {
		return
	}
	if d, ok := s.peek(j); ok {
		out.Decision = d
		return
	}
	p := part{index: i, job: j}
	if j.leasable() {
		n, sh := s.table.find(j.terms, j.req.Key)
		c := &call{job: j, shard: sh}
		d, wait, done := s.begin(c, n, 0)
		if wait != nil {
			// Another is asking, maybe this very batch: ask alone.
			d, _, done = s.begin(c, n, rounds)
		}
		if done {
			out.Decision = d
			return
		}
		p.call = c
	} else {
		s.unsound(j)
	}
	b.parts = append(b.parts, p)
}

// run asks the store and fills in its answers.
func (b *batch) run(ctx context.Context, out []sluice.Result) error {
	if len(b.parts) == 0 {
		return nil
	}
	s := b.store
	reqs := make([]sluice.Request, len(b.parts))
	results := make([]sluice.Result, len(b.parts))
	for i, p := range b.parts {
		if reqs[i] = p.job.req; p.call != nil {
			reqs[i] = p.call.request()
		}
	}
	if err := sluice.TakeBatch(ctx, s.store, reqs, results); err != nil {
		return err
	}
	for i, p := range b.parts {
		r, c := &results[i], p.call
		out[p.index] = *r
		if c == nil {
			continue
		}
		if r.Err != nil {
			out[p.index].Err = s.failed(ctx, c, r.Err)
			continue
		}
		d, ok := s.answered(c, r.Decision)
		if !ok {
			d, out[p.index].Err = s.again(ctx, c)
		}
		out[p.index].Decision = d
	}
	return nil
}

// end lets go what the batch held back, whatever came of it.
func (b *batch) end() {
	for _, p := range b.parts {
		if p.call != nil {
			p.call.end()
		} else {
			b.store.unsound(p.job)
		}
	}
}
