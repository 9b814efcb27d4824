// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
)

// once decides a request whose caller may leave, with a program that a worker sends once.
// If more is needed, which is rare, [Store.apart] does it.
func (s *Store) once(ctx, within context.Context, c *call, req *sluice.Request) (sluice.Decision, error) {
	j := c.ask(req)
	s.guess(c)
	inv := s.invocation(c)
	defer s.gathering.under.Add(-1)
	p := s.sendApart(inv) //nolint:contextcheck // see leave.go: a caller's context never reaches the client
	res, ok := p.wait(ctx)
	if !ok {
		*req = stores.Clone(req)
		l := s.lateTake(ctx, req)
		p.leave(s, func(ctx context.Context, res Reply) {
			err := s.conclude(ctx, c, inv, inv.retry(ctx, s, res))
			l.answer(ctx, j.decision, err)
		})
		return sluice.Decision{}, l.gone
	}
	s.gathering.release(p)
	st, found, err := s.replied(c, inv, &res)
	if err == nil && st == done {
		err = c.finish(found)
	} else if err == nil || res.ranNothing() {
		return s.apart(ctx, within, req, func(ctx context.Context) (sluice.Decision, error) {
			err := s.conclude(ctx, c, inv, inv.retry(ctx, s, res))
			return j.decision, err
		})
	}
	d := j.decision
	s.recycle(c)
	return d, err
}

// apart has a worker decide a request whose caller may leave, within a context of the
// store's own.
func (s *Store) apart(ctx, within context.Context, req *sluice.Request, decide func(context.Context) (sluice.Decision, error)) (sluice.Decision, error) {
	theirs := *req
	*req = stores.Clone(req)
	a := begin(within, s, func(ctx context.Context) (r sluice.Result) {
		r.Decision, r.Err = decide(ctx)
		return r
	})
	r, ok := a.wait(ctx)
	if !ok {
		l := s.lateTake(ctx, req)
		a.leave(s, func(ctx context.Context, r sluice.Result) { l.answer(ctx, r.Decision, r.Err) })
		return sluice.Decision{}, l.gone
	}
	stores.Fill(&theirs, req)
	return r.Decision, r.Err
}

// giveBack gives back the units and the slot that d has spent for req. It reports whether
// there was something to give back and all of it was.
func (s *Store) giveBack(ctx context.Context, req *sluice.Request, d *sluice.Decision) bool {
	undo, spent := req.Undo(*d)
	held := req.Slot != nil && req.Op == sluice.OpTake && d.Allowed
	back := spent || held
	if spent {
		_, err := s.direct(ctx, s.newCall(&undo), &undo)
		back = err == nil
	}
	if held {
		back = s.release(ctx, &req.Slot.SlotRequest) == nil && back
	}
	return back
}

// wrap adds the request to err.
func wrap(req *sluice.Request, err error) error {
	return fmt.Errorf("redisstore: %v of scope %q: %w", req.Op, req.Plan.Scope(), err)
}

// hidden returns err for a request that was sent in parts. It hides a NotSentError of one
// part, as the others may have been sent.
func hidden(err error) error {
	if _, unsent := errors.AsType[*sluice.NotSentError](err); unsent {
		return errors.New(err.Error())
	}
	return err
}
