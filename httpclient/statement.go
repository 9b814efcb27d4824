// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/pacing"
)

// The names of the fields that are read, with the case they have on the wire.
const (
	fieldPolicy     = "RateLimit-Policy"
	fieldRateLimit  = "RateLimit"
	fieldRetryAfter = "Retry-After"
	fieldXRemaining = "X-RateLimit-Remaining"
	fieldXReset     = "X-RateLimit-Reset"
)

// statement returns what an answer says of the limits.
func (t *Transport) statement(res *http.Response, now time.Time) pacing.Statement {
	s := pacing.Statement{At: now, Denied: res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable}
	if age, ok := pacing.Seconds(res.Header.Get("Age")); ok && age > 0 {
		return pacing.Statement{At: now, Cached: true}
	}
	if s.Denied {
		s.Wait = retryAfter(res.Header, now)
	}
	f := t.opts.Fields
	if f&Draft11 != 0 {
		s.Draft11(lines(res.Header, fieldPolicy), lines(res.Header, fieldRateLimit))
	}
	if f&(XRateLimit|XRateLimitEpoch) != 0 {
		xRateLimit(&s, res.Header, now, f&XRateLimitEpoch != 0)
	}
	if s.Denied && s.Wait == 0 {
		// No Retry-After, but a limit that has nothing left.
		for _, it := range s.Items {
			if it.Stated && it.Left == 0 {
				s.Wait = max(s.Wait, it.Span)
			}
		}
	}
	return s
}

// retryAfter returns what Retry-After says, in either form; 0 if it says nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get(fieldRetryAfter)
	if d, ok := pacing.Seconds(text); ok {
		return d
	}
	if len(text) > 64 {
		return 0
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	// By the server's own clock, if it says what that is.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), sluice.MaxWindow)
}

// lines returns the lines of a field. On the wire case does not matter, but in
// a map it does.
func lines(h http.Header, name string) []string {
	if v := h.Values(name); len(v) > 0 {
		return v
	}
	return h[name]
}

// xRateLimit reads X-RateLimit-Remaining and X-RateLimit-Reset.
func xRateLimit(s *pacing.Statement, h http.Header, now time.Time, epoch bool) {
	one := func(name string) string {
		if v := lines(h, name); len(v) == 1 {
			return strings.TrimSpace(v[0])
		}
		return ""
	}
	left, lerr := strconv.ParseInt(one(fieldXRemaining), 10, 64)
	reset, rerr := strconv.ParseInt(one(fieldXReset), 10, 64)
	if lerr != nil || rerr != nil || left < 0 || reset < 0 {
		return
	}
	if epoch {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		reset = max(reset-now.Unix(), 0)
	}
	if reset == 0 {
		return
	}
	s.State("x-ratelimit", left, reset)
}
