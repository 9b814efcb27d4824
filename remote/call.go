// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// Why the store did not decide.
var (
	errTimeout = errors.New("no answer in time")
	errSkipped = &sluice.NotSentError{Err: errors.New("not asked, as it has been failing")}
	errCrowded = &sluice.NotSentError{Err: errors.New("not asked, as too many calls are in flight")}
)

// way is how a call gets to the store.
type way bool

const (
	asked way = false // if the breaker lets it
	past  way = true  // past the breaker, as what tries the store does
)

// admit begins a call, which must be reported, if there is room. One past the
// breaker may go beyond MaxInFlight, as all others may hang.
func (s *Store) admit(w way) (t ticket, err error) {
	most := int64(s.opts.MaxInFlight)
	if w == past {
		t.past = true
		most++
	} else if t, err = s.breaker.admit(); err != nil {
		s.counters.skipped.Add(1)
		return t, err
	}
	if s.inFlight.Add(1) <= most {
		return t, nil
	}
	s.inFlight.Add(-1)
	if w == asked {
		s.counters.crowded.Add(1)
		s.breaker.report(t, failed, errCrowded.Err)
	}
	return t, errCrowded
}

// ask asks the store about req. Its errors are as the store's; a
// [*sluice.MaybeSentError] must be told what became of req.
func (s *Store) ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	return s.askOne(ctx, req, asked)
}

func (s *Store) askOne(ctx context.Context, req *sluice.Request, w way) (d sluice.Decision, err error) {
	t, err := s.admit(w)
	if err != nil {
		return d, err
	}
	if d, err = s.store.Take(ctx, *req); err != nil {
		c, why := s.failed(ctx, t, err)
		return sluice.Decision{}, c.end(c.explain(err, why, req))
	}
	s.succeeded(t)
	return d, nil
}

// askBatch asks the store about reqs in one call, each as ask does.
func (s *Store) askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return s.askMany(ctx, reqs, out, asked)
}

func (s *Store) askMany(ctx context.Context, reqs []sluice.Request, out []sluice.Result, w way) error {
	t, err := s.admit(w)
	if err != nil {
		return err
	}
	if err = sluice.TakeBatch(ctx, s.store, reqs, out); err != nil {
		c, why := s.failed(ctx, t, err)
		return c.end(c.explain(err, why, nil))
	}
	bad := slices.IndexFunc(out, func(r sluice.Result) bool { return storeError(r.Err) != nil })
	if bad < 0 {
		s.succeeded(t)
		return nil
	}
	c, why := s.failed(ctx, t, out[bad].Err)
	for i := range out {
		out[i].Err = c.explain(out[i].Err, why, &reqs[i])
	}
	return c.end(nil)
}

// askSlot asks the store about a slot, as ask does.
func (s *Store) askSlot(ctx context.Context, req *sluice.SlotRequest, w way) (d sluice.SlotDecision, err error) {
	t, err := s.admit(w)
	if err != nil {
		return d, err
	}
	if d, err = s.slots.Slot(ctx, *req); err != nil {
		c, why := s.failed(ctx, t, err)
		return sluice.SlotDecision{}, c.end(c.explain(err, why, nil))
	}
	s.succeeded(t)
	return d, nil
}

// storeError returns err if the store has failed: a request that is not valid is
// not its fault.
func storeError(err error) error {
	if _, invalid := errors.AsType[*sluice.RequestError](err); invalid {
		return nil
	}
	return err
}

// unwrap returns why there is no decision, and whether the store may yet spend
// units for it, or have spent them; late is how to tell it what became of it.
func unwrap(err error) (late *sluice.MaybeSentError, sent bool, why error) {
	if e, ok := errors.AsType[*sluice.NotSentError](err); ok {
		return nil, false, e.Err
	}
	if e, ok := errors.AsType[*sluice.MaybeSentError](err); ok {
		return e, true, e.Err
	}
	return nil, true, err
}

func (s *Store) succeeded(t ticket) {
	s.inFlight.Add(-1)
	if !t.past {
		s.breaker.report(t, succeeded, nil)
	}
}

// failed takes note of a call that an error has ended, and returns why it did if
// the time was over.
func (s *Store) failed(ctx context.Context, t ticket, err error) (c *missed, why error) {
	c = &missed{store: s}
	c.answers.Store(1) // until all are explained
	v := failed
	switch d, mine := ctx.(*deadline); {
	case storeError(err) == nil:
		v = succeeded
	case ctx.Err() == nil:
		s.counters.errors.Add(1)
	case !mine || d.left() || time.Since(d.began) < s.opts.Timeout/2:
		v = neither // it had not long enough to count against the store
	default:
		s.counters.timeouts.Add(1)
		why = fmt.Errorf("%w (%v)", errTimeout, time.Since(d.began).Round(time.Millisecond))
	}
	cause := why
	if cause == nil {
		_, _, cause = unwrap(err)
	}
	switch {
	case !t.past:
		s.breaker.report(t, v, cause)
	case v == failed:
		s.cause.Store(&cause)
	}
	return c, why
}

// missed is a call whose answers come late. It is in flight until all are there.
type missed struct {
	store   *Store
	answers atomic.Int32
}

// end is called once more than there are late answers. It returns err.
func (c *missed) end(err error) error {
	if c.answers.Add(-1) == 0 {
		c.store.inFlight.Add(-1)
	}
	return err
}

// explain returns err with why in it, unless that is nil, and with an answer that
// comes late taken note of. What is said of such a request is passed on.
func (c *missed) explain(err, why error, req *sluice.Request) error {
	if storeError(err) == nil {
		return err
	}
	late, sent, inner := unwrap(err)
	switch {
	case late != nil:
	case why == nil:
		return err
	case sent:
		return why
	default:
		return &sluice.NotSentError{Err: why}
	}
	if why == nil {
		why = inner
	}
	var kept sluice.Request
	if req != nil {
		kept = *req
		kept.More, kept.Outcomes, kept.Slot = slices.Clone(req.More), nil, nil
	}
	c.answers.Add(1)
	return sluice.NewMaybeSentError(why, func(undo bool, heard func(sluice.Late)) {
		tell := late.Keep
		if undo {
			tell = late.Undo
		}
		tell(func(l sluice.Late) {
			c.store.heard(&kept, undo, l)
			_ = c.end(nil)
			heard(l)
		})
	})
}

// heard takes note of a late answer to req, or of none.
func (s *Store) heard(req *sluice.Request, undo bool, l sluice.Late) {
	if l.Err != nil {
		return
	}
	s.nudge()
	if !undo || req.Plan == nil {
		return
	}
	if l.Undone {
		s.counters.givenBack.Add(1)
		s.near.forget(req)
	} else if _, spent := req.Undo(l.Decision); spent {
		s.counters.notGivenBack.Add(1)
	}
}
