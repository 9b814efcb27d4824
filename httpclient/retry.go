// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

// hold is the time that a request may spend waiting.
type hold struct {
	request *http.Request
	end     time.Time // no wait lasts longer
	own     bool      // end is the deadline of the request's context
	onHold  func(*http.Request, time.Duration)
}

func newHold(r *http.Request, o TransportOptions) *hold {
	h := &hold{request: r, end: time.Now().Add(o.MaxWait), onHold: o.OnHold}
	if deadline, ok := r.Context().Deadline(); ok && deadline.Before(h.end) {
		h.end, h.own = deadline, true
	}
	return h
}

// exceeds returns an error if a wait until then would be too long.
func (h *hold) exceeds(until, now time.Time) error {
	if !until.After(h.end) {
		return nil
	}
	return h.refuse(until.Sub(now))
}

// allows reports whether a wait from now on would not be too long.
func (h *hold) allows(wait time.Duration) bool { return !time.Now().Add(wait).After(h.end) }

func (h *hold) refuse(wait time.Duration) error {
	e := &HoldError{Host: h.request.URL.Host, Wait: wait}
	if h.own {
		e.err = context.DeadlineExceeded
	}
	return e
}

// sleep waits until then, at most until h ends, or until woken.
func (h *hold) sleep(until time.Time, woken <-chan struct{}) error {
	if until.After(h.end) {
		until = h.end
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-woken:
		return nil
	case <-h.request.Context().Done():
		return context.Cause(h.request.Context())
	}
}

// told calls OnHold.
func (h *hold) told(wait time.Duration) {
	if h.onHold != nil && wait > 0 {
		h.onHold(h.request, wait)
	}
}

// backoff returns how long to wait after the n-th answer that denied: what the
// server asked for and up to an eighth more, or if it did not say, half a
// second doubled each time, and half of it left to chance.
func backoff(n int, asked time.Duration) time.Duration {
	const first, most = 500 * time.Millisecond, 30 * time.Second
	if asked > 0 {
		return asked + chance(max(asked/8, first/5))
	}
	d := min(first<<min(n-1, 10), most)
	return d/2 + chance(d/2)
}

// chance returns a random duration below d.
func chance(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d))) //nolint:gosec // it keeps no secret, it spreads load
}

// repeat returns the request to be sent again, with a body of its own, if it
// may be.
func (t *Transport) repeat(r *http.Request) (*http.Request, bool) {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
	default:
		may := t.opts.Repeatable
		if may == nil {
			may = carriesKey
		}
		if !may(r) {
			return nil, false
		}
	}
	again := r.WithContext(r.Context()) // a copy: the caller's is not ours to change
	if r.Body == nil || r.Body == http.NoBody {
		return again, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	again.Body = body
	return again, true
}

// carriesKey reports whether the server can tell a repeated request by its key.
func carriesKey(r *http.Request) bool {
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
