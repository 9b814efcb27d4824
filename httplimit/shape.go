// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// paces returns the paces of a request's response and of its body under its verdict; nil
// means no bound.
func (q *Request) paces() (response, upload *exchange.Pace) {
	if len(q.call.Evaluated.Shapes) == 0 {
		return nil, nil
	}
	var of [2]*pace // of the response, and of the body
	for i := range q.call.Evaluated.Shapes {
		s := &q.call.Evaluated.Shapes[i]
		into := &of[0]
		if s.Rule.Cost.Of == policy.RequestBytes {
			into = &of[1]
		}
		if *into == nil {
			*into = &pace{mw: q.mw, of: q.r, maxWait: s.MaxWait, Pace: exchange.Pace{Chunk: mostAtOnce}}
			(*into).Take = (*into).take
		}
		(*into).add(s)
	}
	if of[0] != nil {
		response = &of[0].Pace
	}
	if of[1] != nil {
		upload = &of[1].Pace
	}
	return response, upload
}

const (
	mostAtOnce  = 32 << 10               // bytes
	leastAtOnce = 512                    // bytes, if the limit's burst allows it
	smoothness  = 100 * time.Millisecond // the time between chunks at a slow pace
)

// pace passes bytes on at the pace of the limits of one or more keys.
type pace struct {
	exchange.Pace
	mw      *Middleware
	of      *http.Request
	charges []sluice.Charge
	failure sluice.Failure
	maxWait time.Duration // of each chunk: the least of all rules
	most    atomic.Int64  // bytes at once, if a node's share is less than a chunk; 0: a chunk
}

func (p *pace) add(s *evaluate.Shape) {
	p.charges = append(p.charges, s.Charge)
	p.failure = max(p.failure, s.Rule.Failure)
	p.maxWait = min(p.maxWait, s.MaxWait)
	for i := range s.Charge.Plan.Len() {
		t := s.Charge.Plan.Term(i)
		perTurn := max(int64(float64(t.Quota)*smoothness.Seconds()/t.Window.Seconds()), leastAtOnce)
		p.Chunk = int(min(int64(p.Chunk), perTurn, t.Full))
	}
}

// take blocks until n bytes, at most a chunk, may pass.
func (p *pace) take(n int) error {
	for left := int64(n); left > 0; {
		part := left
		if most := p.most.Load(); most > 0 {
			part = min(left, most)
		}
		switch err := p.takeAtOnce(part); {
		case part > 1 && aboveShare(err):
			p.most.Store(part / 2)
		case err != nil:
			return err
		default:
			left -= part
		}
	}
	return nil
}

// takeAtOnce blocks until n bytes may pass together.
func (p *pace) takeAtOnce(n int64) error {
	charges := slices.Clone(p.charges) // several goroutines may take
	for i := range charges {
		charges[i].Cost = n
	}
	ctx := p.of.Context()
	req := sluice.Request{Op: sluice.OpReserve, Charge: charges[0], More: charges[1:], MaxWait: p.maxWait}
	d, err := p.mw.opts.Store.Take(ctx, req)
	switch {
	case n > 1 && aboveShare(err):
		return err
	case err != nil:
		p.mw.report(p.of, err)
		if p.failure == sluice.FailOpen {
			return nil
		}
		return fmt.Errorf("httplimit: shape: %w", err)
	case !d.Allowed:
		return fmt.Errorf("httplimit: shape: the turn of these bytes would not come within %v", p.maxWait)
	}
	return sluice.Await(ctx, p.mw.opts.Store, req, d)
}

// aboveShare reports whether err refuses a cost whose smaller parts may pass.
func aboveShare(err error) bool {
	of, ok := errors.AsType[*sluice.RequestError](err)
	return ok && of.Field == "Cost"
}

// meter charges the request's body while it is read, if its length is not known and a rule
// counts it; else it returns nil. The result holds the denial of the body, if it is denied.
func (q *Request) meter() *atomic.Pointer[evaluate.Event] {
	take := q.call.Meter(q.r.Context())
	if take == nil {
		return nil
	}
	denied := new(atomic.Pointer[evaluate.Event])
	q.exchange().Meter(func(n int, last bool) bool {
		denied.Store(take(n, last))
		return denied.Load() == nil
	}, func() {
		q.overrule(denied.Load())
		delete(q.w.Header(), warningField) // the warning was for the request, which passed
		if q.r.ProtoMajor == 1 {
			q.w.Header()["Connection"] = []string{"close"} // the body was not read to its end
		}
		q.refuse(q.w)
	})
	return denied
}

// overrule makes the denial of the request's body the request's verdict, once.
func (q *Request) overrule(e *evaluate.Event) {
	if !q.Allowed() {
		return
	}
	if q.status = q.mw.answers.status(e); e.Verdict == evaluate.Denied && e.Decision.TooLarge {
		q.status = http.StatusRequestEntityTooLarge
	}
	q.call.Event = *e // the settlement reports it
}
