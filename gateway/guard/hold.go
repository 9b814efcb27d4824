// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/httplimit"
)

// mostKept is the largest body that is read while its request is held back.
const mostKept = 64 << 10 // bytes

// hold waits until the request may go on. It reports false if it may not: then
// it is answered, and has cost nothing.
func (c *request) hold() bool {
	g, v := c.guard, &c.verdict
	due := time.Now().Add(v.Decision.Delay)
	err := c.readAhead()
	if err == nil {
		err = g.opts.Queue.wait(c.r.Context(), time.Until(due))
	}
	if err == nil {
		v.Decision.ResetAfter = max(v.Decision.ResetAfter-v.Decision.Delay, 0)
		return true
	}
	g.report(c.r, v.Cancel(c.r.Context()))
	e := httplimit.Event{Verdict: httplimit.Abandoned, Status: http.StatusServiceUnavailable, Err: err}
	switch {
	case errors.Is(err, ErrQueueFull):
		e.Verdict = httplimit.FailedClosed
		c.w.Header().Set("Retry-After", retryAfter(v.Decision.Delay))
	case errors.Is(err, errBody):
		e.Verdict, e.Status = httplimit.Refused, http.StatusBadRequest
	}
	httplimit.WriteProblem(c.w, c.r, e)
	return false
}

var errBody = errors.New("the request's body cannot be read")

// readAhead reads a small body before the wait: net/http finds out that a client
// of HTTP/1 has hung up only once nothing of the request is left to be read. Of
// a larger body, or one of unknown size, it learns after the wait.
func (c *request) readAhead() error {
	n := c.r.ContentLength
	if n <= 0 || n > mostKept || c.r.Body == nil {
		return nil
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r.Body, body); err != nil {
		return errBody
	}
	// The end is read, too: only then is it known that nothing is left.
	if more, err := c.r.Body.Read(make([]byte, 1)); more > 0 || !errors.Is(err, io.EOF) {
		return errBody
	}
	copied := *c.r // the caller's keeps its body
	copied.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), c.r.Body}
	c.r = &copied
	return nil
}
