// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/httplimit"
)

// hold waits until the request may go on. It reports false if it may not: then
// it is answered, and has cost nothing.
func (c *request) hold() bool {
	g, v := c.guard, &c.verdict
	due := time.Now().Add(v.Decision.Delay)
	err := g.opts.Queue.enter()
	if err == nil {
		err = c.await(due)
		g.opts.Queue.leave()
	}
	if err == nil {
		v.Decision.ResetAfter = max(v.Decision.ResetAfter-v.Decision.Delay, 0)
		return true
	}
	g.report(c.r, v.Cancel(c.r.Context()))
	e := httplimit.Event{Verdict: httplimit.Abandoned, Status: http.StatusServiceUnavailable, Decision: v.Decision, Err: err}
	switch {
	case errors.Is(err, ErrQueueFull):
		e.Verdict = httplimit.FailedClosed
	case errors.Is(err, errBody):
		e.Verdict, e.Status = httplimit.Refused, http.StatusBadRequest
	}
	httplimit.WriteProblem(c.w, c.r, e)
	return false
}

// await blocks until an instant. It returns an error as soon as the client is
// gone, or its body cannot be read.
func (c *request) await(due time.Time) error {
	ctx := c.r.Context()
	a := c.readAhead()
	var broken chan struct{}
	if a != nil {
		defer a.over()
		broken = a.broken
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-broken:
		return errBody
	}
}
