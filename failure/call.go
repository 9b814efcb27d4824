// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

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
	errSkipped = errors.New("not asked, as it has been failing")
	errCrowded = errors.New("not asked, as too many calls are in flight")
)

// call is requests on their way to the store. The store gets copies: it may go
// on reading and writing them after the caller has left.
type call struct {
	store   *Store
	single  bool
	slot    *sluice.SlotRequest // in the place of reqs
	held    sluice.SlotDecision // the answer to slot
	reqs    []sluice.Request
	results []sluice.Result
	err     error // of all of them
	state   atomic.Int32
	done    chan struct{} // closed when answered to a caller that waits
	fates   chan []bool   // which requests a caller that left has let through
}

// The states of a call.
const (
	waiting int32 = iota
	answered
	abandoned
)

func (s *Store) newCall(reqs []sluice.Request, single bool) *call {
	c := &call{
		store: s, single: single,
		reqs: slices.Clone(reqs), results: make([]sluice.Result, len(reqs)),
		done: make(chan struct{}), fates: make(chan []bool, 1),
	}
	for i := range c.reqs {
		r := &c.reqs[i]
		r.More = slices.Clone(r.More)
		if r.Outcomes != nil {
			r.Outcomes = new(make(sluice.Outcomes, len(*r.Outcomes)))
		}
		if r.Slot != nil {
			r.Slot = &sluice.Slot{SlotRequest: r.Slot.SlotRequest}
		}
	}
	return c
}

// ask sends c and waits for the answer, the deadline or the end of ctx. It
// returns nil if the store answered, whatever that was, and else why not. After
// errTimeout and the errors of ctx the call is under way still: its fates must
// be told.
func (s *Store) ask(ctx context.Context, c *call, most int64) error {
	if s.inFlight.Add(1) > most {
		s.inFlight.Add(-1)
		return errCrowded
	}
	// A store whose context ends drops the answer, and what it has charged: so it
	// is not told that the caller has left.
	go c.run(context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout+s.opts.LateTimeout))
	timer := time.NewTimer(s.opts.Timeout)
	defer timer.Stop()
	var why error
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-timer.C:
		why = errTimeout
	}
	if c.state.CompareAndSwap(waiting, abandoned) {
		return why
	}
	<-c.done
	return nil
}

// run asks the store. It belongs to the caller as long as that waits, then to
// itself, and ends when the store returns.
func (c *call) run(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	switch {
	case c.slot != nil:
		c.held, c.err = c.store.slots.Slot(ctx, *c.slot)
	case c.single:
		c.results[0].Decision, c.results[0].Err = c.store.store.Take(ctx, c.reqs[0])
	default:
		c.err = sluice.TakeBatch(ctx, c.store.store, c.reqs, c.results)
	}
	if c.state.CompareAndSwap(waiting, answered) {
		c.store.inFlight.Add(-1)
		close(c.done)
		return
	}
	defer c.store.inFlight.Add(-1)
	c.late(context.WithoutCancel(ctx), <-c.fates)
}

// late gives back what requests were charged that were not let through, as
// their callers had left by then.
func (c *call) late(ctx context.Context, passed []bool) {
	if c.err != nil {
		return
	}
	if c.slot != nil {
		if c.slot.Op == sluice.SlotAcquire && c.held.Allowed && !passed[0] {
			c.store.release(c.slot)
		}
		c.store.nudge()
		return
	}
	alive := false
	var undo []sluice.Request
	for i := range c.reqs {
		if c.results[i].Err != nil {
			continue
		}
		alive = true
		if u, ok := c.reqs[i].Undo(c.results[i].Decision); ok && !passed[i] {
			undo = append(undo, u)
		}
	}
	if alive {
		c.store.nudge()
	}
	if len(undo) > 0 {
		c.store.giveBack(ctx, undo)
	}
}

// giveBack refunds, in one call, what was charged to requests that were not let
// through.
func (s *Store) giveBack(ctx context.Context, undo []sluice.Request) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout+s.opts.LateTimeout)
	defer cancel()
	out := make([]sluice.Result, len(undo))
	var err error
	if len(undo) == 1 { // most are, and a store may gather those
		_, err = s.store.Take(ctx, undo[0])
	} else {
		err = sluice.TakeBatch(ctx, s.store, undo, out)
	}
	for i := range out {
		if err != nil || out[i].Err != nil {
			s.counters.notGivenBack.Add(1)
		} else {
			s.counters.givenBack.Add(1)
		}
	}
}

// failure returns the error that says that the store has failed, nil if none
// does: a request that is not valid is not the store's fault.
func (c *call) failure() error {
	if c.slot != nil {
		return storeError(c.err)
	}
	if c.err != nil {
		return c.err
	}
	for i := range c.results {
		if failed := storeError(c.results[i].Err); failed != nil {
			return failed
		}
	}
	return nil
}

func storeError(err error) error {
	if _, invalid := errors.AsType[*sluice.RequestError](err); invalid {
		return nil
	}
	return err
}

// send asks the store about c if the breaker lets it. It returns nil if the
// store has answered every request, and else why not, and whether it was asked.
func (s *Store) send(ctx context.Context, c *call) (sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err // too late to ask
	}
	t, ok := s.breaker.admit()
	if !ok {
		s.counters.skipped.Add(1)
		return false, errSkipped
	}
	began := time.Now()
	err = s.ask(ctx, c, int64(s.opts.MaxInFlight))
	verdict := failed
	switch {
	case err == nil:
		if err := c.failure(); err == nil {
			verdict = succeeded
		} else if ctx.Err() != nil && !s.longEnough(ctx, began) {
			verdict = neither
		}
		s.breaker.report(t, verdict, c.failure())
		if verdict == failed {
			s.counters.errors.Add(1)
		}
		return true, nil
	case errors.Is(err, errCrowded):
		s.counters.crowded.Add(1)
		s.breaker.report(t, failed, err)
		return false, err
	case !errors.Is(err, errTimeout) && !s.longEnough(ctx, began):
		verdict = neither
	default:
		s.counters.timeouts.Add(1)
		err = fmt.Errorf("%w (%v)", errTimeout, time.Since(began).Round(time.Millisecond))
	}
	s.breaker.report(t, verdict, err)
	return true, err
}

// longEnough reports whether a caller whose deadline ended first has left the
// store at least half of the usual time: then it counts against the store.
func (s *Store) longEnough(ctx context.Context, began time.Time) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) >= s.opts.Timeout/2
}
