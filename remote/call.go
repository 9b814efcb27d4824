// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/caller"
)

// The reasons why the store did not decide.
var (
	errTimeout    = errors.New("no answer in time")
	errSkipped    = &sluice.NotSentError{Err: errors.New("not called, as it has been failing")}
	errOverloaded = &sluice.NotSentError{Err: errors.New("not called, as too many calls are in flight")}
)

// admit begins a call, which must be reported, if there is room. A call past the breaker,
// as probes are, may exceed MaxInFlight by one, as all other calls may hang.
func (s *Store) admit(past bool) (t ticket, err error) {
	most := int64(s.opts.MaxInFlight)
	if t.past = past; past {
		most++
	} else if t, err = s.breaker.admit(); err != nil {
		s.counters.skipped.Add(1)
		return t, err
	}
	if s.inFlight.Add(1) <= most {
		return t, nil
	}
	s.inFlight.Add(-1)
	if !past {
		s.counters.overloaded.Add(1)
		s.breaker.report(t, failed, errOverloaded.Err)
	}
	return t, errOverloaded
}

// ask has the store decide req. Its errors are the store's; the caller must settle a
// [*sluice.MaybeSentError].
func (s *Store) ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	return s.askOne(ctx, req, false)
}

func (s *Store) askOne(ctx context.Context, req *sluice.Request, past bool) (d sluice.Decision, err error) {
	t, err := s.admit(past)
	if err != nil {
		return d, err
	}
	err = errNoAnswer
	defer func() { err = s.over(ctx, t, req, err) }()
	d, err = s.store.Take(ctx, *req)
	return d, err
}

// askBatch has the store decide reqs in one call, as ask does for one.
func (s *Store) askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return s.askMany(ctx, reqs, out, false)
}

func (s *Store) askMany(ctx context.Context, reqs []sluice.Request, out []sluice.Result, past bool) error {
	t, err := s.admit(past)
	if err != nil {
		return err
	}
	bad := errNoAnswer
	defer func() { s.overAll(ctx, t, reqs, out, bad) }()
	err = sluice.TakeBatch(ctx, s.store, reqs, out)
	bad = err
	for i := 0; bad == nil && i < len(out); i++ {
		bad = storeError(out[i].Err)
	}
	return err
}

// overAll is over for a call with reqs. The call counts as its worst request.
func (s *Store) overAll(ctx context.Context, t ticket, reqs []sluice.Request, out []sluice.Result, bad error) {
	if bad == nil {
		s.answered(t, succeeded)
		return
	}
	c := s.failed(ctx, t, bad)
	defer c.end()
	for i := range out {
		out[i].Err = c.watch(out[i].Err, &reqs[i])
	}
}

// askSlot has the store decide a slot, as ask does.
func (s *Store) askSlot(ctx context.Context, req *sluice.SlotRequest, past bool) (d sluice.SlotDecision, err error) {
	t, err := s.admit(past)
	if err != nil {
		return d, err
	}
	err = errNoAnswer
	defer func() {
		if err == nil && req.Op == sluice.SlotRelease {
			s.answered(t, neither) // a store that refuses to write may release slots that it does not hold
			return
		}
		err = s.over(ctx, t, &sluice.Request{}, err)
	}()
	d, err = s.slots.Slot(ctx, *req)
	return d, err
}

// over records the end of a call with req, and returns its error, which is errNoAnswer if the
// store has panicked.
func (s *Store) over(ctx context.Context, t ticket, req *sluice.Request, err error) error {
	if err == nil {
		s.answered(t, succeeded)
		return nil
	}
	c := s.failed(ctx, t, err)
	defer c.end()
	return c.watch(err, req)
}

// storeError returns err if the store has failed; an invalid request is no failure of the
// store.
func storeError(err error) error {
	if _, invalid := errors.AsType[*sluice.RequestError](err); invalid {
		return nil
	}
	return err
}

// unwrap returns the reason why there is no decision, and whether the store may have spent
// units for the request, or may yet. late, if not nil, is the error by which the caller asks
// for the late answer.
func unwrap(err error) (late *sluice.MaybeSentError, sent bool, why error) {
	late, _ = errors.AsType[*sluice.MaybeSentError](err)
	unsent, ok := errors.AsType[*sluice.NotSentError](err)
	switch why = err; {
	case late != nil:
		why = late.Err
	case ok:
		why = unsent.Err
	}
	if errors.Is(why, context.DeadlineExceeded) {
		why = errTimeout
	}
	return late, late != nil || !ok, why
}

// answered records the end of a call without an error.
func (s *Store) answered(t ticket, v verdict) {
	s.inFlight.Add(-1)
	if !t.past {
		s.breaker.report(t, v, nil)
	}
}

// failed records the end of a call with an error.
func (s *Store) failed(ctx context.Context, t ticket, err error) *missed {
	v := failed
	switch d, _ := ctx.(*callDeadline); {
	case storeError(err) == nil:
		v = succeeded
	case caller.Left(ctx) == nil:
		s.counters.errors.Add(1)
	case d.left():
		v = neither // the store may have had no time; see watch
	default:
		s.counters.timeouts.Add(1)
	}
	_, _, why := unwrap(err)
	if !t.past {
		s.breaker.report(t, v, why)
	} else if v == failed {
		s.cause.Store(&why)
	}
	c := &missed{store: s}
	if v == neither && !t.past {
		c.unheard = &ticket{generation: t.generation}
	}
	c.answers.Store(1) // until watch was called for all
	return c
}

// missed is a call with late answers. It is in flight until all have come.
type missed struct {
	store   *Store
	answers atomic.Int32
	unheard *ticket // of a call that counts as a failure if no answer comes at all
}

// end is called once for each late answer, and once more.
func (c *missed) end() {
	if c.answers.Add(-1) == 0 {
		c.store.inFlight.Add(-1)
	}
}

// watch returns err and records the late answer to req. If req cannot be undone, its units
// are kept at once.
func (c *missed) watch(err error, req *sluice.Request) error {
	late, _ := errors.AsType[*sluice.MaybeSentError](err)
	if late == nil {
		return err
	}
	kept := *req
	kept.More, kept.Outcomes, kept.Slot = slices.Clone(req.More), nil, nil
	if req.Hold != nil {
		kept.Hold = new(*req.Hold)
	}
	c.answers.Add(1)
	mine := sluice.NewMaybeSentError(late.Err, func(undo bool, heard func(sluice.Late)) {
		report := late.Keep
		if undo {
			report = late.Undo
		}
		report(func(l sluice.Late) {
			if l.Err != nil && c.unheard != nil {
				c.store.breaker.report(*c.unheard, failed, errTimeout)
			}
			c.store.heard(&kept, undo, l)
			c.end()
			heard(l)
		})
	})
	switch req.Op {
	case sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve:
		return mine
	default:
		mine.Keep(nil)
		return late.Err
	}
}

// heard records a late answer to req, or the lack of one.
func (s *Store) heard(req *sluice.Request, undo bool, l sluice.Late) {
	if l.Err != nil {
		return
	}
	s.nudge()
	_, spent := req.Undo(l.Decision)
	switch {
	case !undo:
	case l.Undone:
		s.counters.givenBack.Add(1)
		s.near.forget(req)
	case spent:
		s.counters.notGivenBack.Add(1)
	}
}
