// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// hold waits until the request may go on. If it may not it has cost nothing.
func (q *Request) hold(ctx context.Context) {
	m, v := q.mw, &q.verdict
	due := time.Now().Add(v.Decision.Delay)
	err := m.opts.Queue.enter()
	if err == nil {
		err = q.await(ctx, due)
		m.opts.Queue.leave()
	}
	if err == nil {
		v.Decision.ResetAfter = max(v.Decision.ResetAfter-v.Decision.Delay, 0)
		q.event.Decision.ResetAfter = v.Decision.ResetAfter
		return
	}
	m.report(q.r, v.Cancel(ctx))
	e := Event{Verdict: Abandoned, Status: http.StatusServiceUnavailable, Decision: v.Decision, Err: err, Judged: v}
	switch {
	case errors.Is(err, ErrQueueFull):
		e.Verdict = FailedClosed
	case errors.Is(err, errBody):
		e.Verdict, e.Status = Refused, http.StatusBadRequest
	}
	q.event = e
}

// await blocks until an instant. It returns an error as soon as the client is
// gone, or its body cannot be read.
func (q *Request) await(ctx context.Context, due time.Time) error {
	a := q.readAhead()
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
