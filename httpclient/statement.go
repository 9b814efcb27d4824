// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/pacing"
)

// The names of the fields that are read, with the case they have on the wire.
const (
	fieldPolicy     = "RateLimit-Policy"
	fieldRateLimit  = "RateLimit"
	fieldRemaining  = "RateLimit-Remaining"
	fieldReset      = "RateLimit-Reset"
	fieldRetryAfter = "Retry-After"
	fieldXRemaining = "X-RateLimit-Remaining"
	fieldXReset     = "X-RateLimit-Reset"
)

// statement returns the statement of an answer about limits.
func (t *Transport) statement(res *http.Response, now time.Time) pacing.Statement {
	s, h, status := pacing.Statement{At: now}, res.Header, res.StatusCode
	s.Denied = status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	age, _ := pacing.Seconds(h.Get("Age")) // 0 without the field
	if age > 0 && !s.Denied {
		return pacing.Statement{At: now, Cached: true}
	}
	if status >= http.StatusMultipleChoices {
		wait, asked := retryAfter(h, now)
		s.Wait = max(wait-age, 0)
		s.Denied = s.Denied || asked && status >= http.StatusBadRequest
	}
	if age > 0 { // all other fields were meant for another request
		return s
	}
	// Families of one limit are read in order, the most exact first.
	if !t.opts.IgnoreRateLimit {
		s.Draft11(lines(h, fieldPolicy), lines(h, fieldRateLimit))
		state(&s, h, pair(one(h, fieldRateLimit), "remaining"), pair(one(h, fieldRateLimit), "reset"))
		state(&s, h, one(h, fieldRemaining), one(h, fieldReset))
	}
	if !t.opts.IgnoreXRateLimit {
		state(&s, h, one(h, fieldXRemaining), one(h, fieldXReset))
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

// retryAfter returns the duration of Retry-After, the longest of several lines, and whether
// there is one.
func retryAfter(h http.Header, now time.Time) (longest time.Duration, asked bool) {
	for _, text := range h.Values(fieldRetryAfter) {
		if d, ok := retryLine(text, h, now); ok {
			longest, asked = max(longest, d), true
		}
	}
	return longest, asked
}

// retryLine returns the duration of a line of Retry-After, in either form, and whether it is
// valid.
func retryLine(text string, h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := pacing.Seconds(text); ok {
		return d, true
	}
	if len(text) > mostText {
		return 0, false
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(serverTime(h, now)), 0), sluice.MaxWindow), true
}

// serverTime returns the time of the server's clock, or now without a Date.
func serverTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// lines returns the lines of a field. Its name may have the case of the wire or the canonical
// one in the map.
func lines(h http.Header, name string) []string {
	if v := h.Values(name); len(v) > 0 {
		return v
	}
	return h[name]
}

// mostText bounds the text of a date or a pair.
const mostText = 128

// one returns the text of a field with a single line.
func one(h http.Header, name string) string {
	if v := lines(h, name); len(v) == 1 && len(v[0]) <= mostText {
		return strings.TrimSpace(v[0])
	}
	return ""
}

// pair returns the value of a key in a field of draft 7, as in
// "limit=10, remaining=5, reset=7".
func pair(text, key string) string {
	for member := range strings.SplitSeq(text, ",") {
		if name, value, _ := strings.Cut(strings.TrimSpace(member), "="); name == key {
			return value
		}
	}
	return ""
}

// A reset above these is a point in time, in seconds or milliseconds since 1970: as a number
// of seconds it would be 31 years or more.
const (
	leastEpoch   = 1e9
	leastEpochMs = 1e12
)

// state records the remaining units and when their time ends, unless a more exact family has
// stated a limit.
func state(s *pacing.Statement, h http.Header, left, reset string) {
	n, ok := pacing.Number(left)
	end, also := pacing.Number(reset)
	if !ok || !also || slices.ContainsFunc(s.Items, func(it pacing.Item) bool { return it.Stated || it.Other }) {
		return
	}
	if end > leastEpochMs {
		end /= 1000
	}
	if end > leastEpoch {
		end -= float64(serverTime(h, s.At).Unix())
	}
	end = min(end, sluice.MaxWindow.Seconds())
	if span := time.Duration(end * float64(time.Second)); span > 0 {
		s.State("ratelimit", int64(min(n, 1<<53)), span)
	}
}
