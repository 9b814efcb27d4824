// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
)

var errShape = errors.New("tcp: bytes do not fit in time")

// chunkOf returns the most bytes to pass at once: those that the limits grant in a tenth of a
// second, so that the connections of a key take turns, but not so few that a chunk costs more
// to decide than to send.
func chunkOf(bytes *sluice.Plan) int {
	chunk := int64(largest)
	for t := range eachTerm(bytes) {
		tenth := int64(float64(t.Quota) * float64(100*time.Millisecond) / float64(t.Window))
		chunk = min(chunk, max(tenth, 1024), t.Full)
	}
	return int(chunk)
}

// pace is the rate of one direction.
type pace struct {
	terms *terms // the other fields are derived from these
	plan  *sluice.Plan
	key   string
	chunk int // most bytes at once
}

// now adopts the server's current terms and returns how many bytes may pass at once.
func (p *pace) now(x *exchange) int {
	if t := x.server.terms.Load(); t != p.terms {
		*p = pace{terms: t, plan: t.Bytes, key: t.Key(x.addr), chunk: t.chunk}
		if t.exempt(x.addr) {
			p.plan, p.chunk = nil, largest
		}
	}
	return p.chunk
}

// wait blocks until n bytes fit, in order of arrival.
func (p *pace) wait(ctx context.Context, s *Server, n int) error {
	if p.plan == nil {
		return nil
	}
	req := sluice.Request{
		Op: sluice.OpReserve, Charge: sluice.Charge{Plan: p.plan, Key: p.key, Cost: int64(n)}, MaxWait: maxDelay,
	}
	d, err := s.take(ctx, req)
	if of, ok := errors.AsType[*sluice.RequestError](err); ok && of.Field == "Cost" && n > 1 { // the chunk is above a node's share
		p.chunk = n / 2 // until the terms change
		if err = p.wait(ctx, s, n/2); err != nil {
			return err
		}
		return p.wait(ctx, s, n-n/2)
	}
	if err != nil {
		s.log.Warn(ctx, "bytes not decided", err)
		if p.terms.FailClosed {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		return ctx.Err()
	}
	if !d.Allowed {
		return fmt.Errorf("%w: the limit %q has none for %v", errShape, p.plan.Term(d.Binding).Name, d.RetryAfter)
	}
	err = sluice.Await(ctx, s.opts.Store, req, d)
	if err != nil && !errors.Is(ctx.Err(), err) {
		s.log.Warn(ctx, "bytes not refunded", err)
	}
	return err
}
