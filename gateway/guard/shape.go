// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// paces are those of a request's body and its response's; nil ones are as fast
// as it goes.
type paces struct{ request, response *pace }

// pacesOf returns the paces of a request under its verdict.
func (g *Guard) pacesOf(r *http.Request, v *policy.Verdict) (p paces) {
	for s := range v.Shapes() {
		into := &p.response
		if s.Rule.Cost.Of == policy.RequestBytes {
			into = &p.request
		}
		if *into == nil {
			*into = &pace{guard: g, of: r, chunk: mostAtOnce, maxWait: s.MaxWait}
		}
		(*into).add(&s)
	}
	return p
}

const (
	mostAtOnce  = 32 << 10               // bytes
	leastAtOnce = 512                    // bytes, where the limit's burst allows it
	smoothness  = 100 * time.Millisecond // of a slow pace: how long a chunk takes
)

// pace lets bytes through as the buckets of one or more keys let them.
type pace struct {
	guard   *Guard
	of      *http.Request
	charges []sluice.Charge
	failure policy.Failure
	chunk   int           // most bytes at once
	maxWait time.Duration // of each chunk: the least of the rules'
}

func (p *pace) add(s *policy.Shape) {
	p.charges = append(p.charges, s.Charge)
	p.failure = max(p.failure, s.Rule.Failure)
	p.maxWait = min(p.maxWait, s.MaxWait)
	for i := range s.Charge.Plan.Len() {
		t := s.Charge.Plan.Term(i)
		perTurn := max(int64(float64(t.Quota)*smoothness.Seconds()/t.Window.Seconds()), leastAtOnce)
		p.chunk = int(min(int64(p.chunk), perTurn, t.Full()))
	}
}

// write writes all of b by write, each chunk when its turn has come.
func (p *pace) write(b []byte, write func([]byte) (int, error)) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), p.chunk)]
		if err := p.take(len(part)); err != nil {
			return n, err
		}
		m, err := write(part)
		n += m
		if err != nil {
			return n, err
		}
		b = b[m:]
	}
	return n, nil
}

// read reads by read and counts what comes. It returns when its turn has come;
// nil is as fast as it goes.
func (p *pace) read(b []byte, count *atomic.Int64, read func([]byte) (int, error)) (int, error) {
	if p != nil {
		b = b[:min(len(b), p.chunk)]
	}
	n, err := read(b)
	count.Add(int64(n))
	if p != nil && n > 0 {
		if slow := p.take(n); slow != nil && err == nil {
			err = slow
		}
	}
	return n, err
}

// clone returns a pace of the same keys, for another goroutine.
func (p *pace) clone() *pace {
	if p == nil {
		return nil
	}
	other := *p
	other.charges = slices.Clone(p.charges)
	return &other
}

// take blocks until n bytes, a chunk at most, may go on.
func (p *pace) take(n int) error {
	for i := range p.charges {
		p.charges[i].Cost = int64(n)
	}
	ctx := p.of.Context()
	req := sluice.Request{Op: sluice.OpReserve, Charge: p.charges[0], More: p.charges[1:], MaxWait: p.maxWait}
	d, err := p.guard.opts.Store.Take(ctx, req)
	switch {
	case err != nil:
		p.guard.report(p.of, err)
		if p.failure == policy.Open {
			return nil
		}
		return fmt.Errorf("guard: shape: %w", err)
	case !d.Allowed:
		return fmt.Errorf("guard: shape: the turn of these bytes would not come within %v", p.maxWait)
	case d.Delay <= 0:
		return nil
	}
	if err := sleep(ctx, d.Delay); err != nil {
		// The client is gone, but its place in the queue must not stay taken.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		req.Op, req.MaxWait, req.At, req.Due = sluice.OpRefund, 0, d.At, d.Due
		_, failed := p.guard.opts.Store.Take(undo, req)
		return errors.Join(err, failed)
	}
	return nil
}
