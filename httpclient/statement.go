// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// The names of the fields that are read, with the case they have on the wire.
const (
	fieldPolicy     = "RateLimit-Policy"
	fieldRateLimit  = "RateLimit"
	fieldRetryAfter = "Retry-After"
	fieldXRemaining = "X-RateLimit-Remaining"
	fieldXReset     = "X-RateLimit-Reset"
)

// paramBurst is the parameter of RateLimit-Policy that tells how many units a
// bucket holds, if not its quota.
const paramBurst = "sluice-burst"

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// Bounds of what is read of an answer. A field that exceeds them is ignored.
const (
	maxFieldBytes = 8 << 10
	maxNameBytes  = 512 // of a limit and its partition
	maxItems      = 16  // limits
	maxParams     = 16  // of each
	// maxSeconds is the longest wait that is believed.
	maxSeconds = int64(sluice.MaxWindow / time.Second)
)

// statement is what an answer says of the limits.
type statement struct {
	at     time.Time     // when it came
	cached bool          // it was meant for another request; the rest is empty
	denied bool          // status 429 or 503
	wait   time.Duration // before which nothing is to be sent; 0 if it does not say
	items  []item
}

// identity tells the limits of an answer apart.
type identity struct{ name, partition string }

// item is what is said of one limit.
type item struct {
	identity
	stated bool          // left and span are known
	left   int64         // units
	span   time.Duration // 0: the window
	quota  int64         // units; 0: unknown
	window time.Duration // 0: unknown
	burst  int64         // units of a bucket whose units come back one by one; 0: unknown
}

func (s *statement) mentions(id identity) bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return it.identity == id })
}

func (t *Transport) statement(res *http.Response, now time.Time) statement {
	s := statement{at: now, denied: res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable}
	if age, ok := seconds(res.Header.Get("Age")); ok && age > 0 {
		return statement{at: now, cached: true}
	}
	if s.denied {
		s.wait = retryAfter(res.Header, now)
	}
	f := t.opts.Fields
	if f&Draft11 != 0 {
		s.draft11(res.Header)
	}
	if f&(XRateLimit|XRateLimitEpoch) != 0 {
		s.xRateLimit(res.Header, now, f&XRateLimitEpoch != 0)
	}
	if s.denied && s.wait == 0 {
		// No Retry-After, but a limit that has nothing left.
		for _, it := range s.items {
			if it.stated && it.left == 0 {
				s.wait = max(s.wait, it.span)
			}
		}
	}
	return s
}

// retryAfter returns what Retry-After says, in either form; 0 if it says nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get(fieldRetryAfter)
	if n, ok := seconds(text); ok {
		return time.Duration(n) * time.Second
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

// seconds reads a non-negative number of them, digits only. One longer than is
// believed counts as the longest.
func seconds(text string) (int64, bool) {
	if text == "" || len(text) > maxFieldBytes {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // out of range
		return maxSeconds, true
	}
	return min(n, maxSeconds), true
}

// lines returns the lines of a field. On the wire case does not matter, but in
// a map it does.
func lines(h http.Header, name string) []string {
	if v := h.Values(name); len(v) > 0 {
		return v
	}
	return h[name]
}

// members returns the items of a field, none if it is malformed. One whose name
// is too long to be remembered is left out.
func members(h http.Header, name string) []member {
	all, _ := parseList(lines(h, name)) // malformed: as if not there
	return slices.DeleteFunc(all, func(m member) bool { id := m.identity(); return len(id.name)+len(id.partition) > maxNameBytes })
}

// draft11 reads RateLimit-Policy and RateLimit. Items without the parameter
// that they must have are left out, as are those that count something else
// than requests.
func (s *statement) draft11(h http.Header) {
	policies := members(h, fieldPolicy)
	for _, m := range policies {
		it := item{identity: m.identity()}
		if q, ok := m.integer("q"); ok && q > 0 {
			it.quota = q
		}
		if w, ok := m.integer("w"); ok && w > 0 {
			it.window = time.Duration(min(w, maxSeconds)) * time.Second
		}
		if b, ok := m.integer(paramBurst); ok && b > 0 {
			it.burst = b
		}
		if it.window == 0 || !m.requests() {
			it.quota, it.window, it.burst = 0, 0, 0
		}
		s.items = append(s.items, it)
	}
	for _, m := range members(h, fieldRateLimit) {
		r, ok := m.integer("r")
		if !ok || r < 0 {
			continue
		}
		it := s.item(m.identity())
		if !counts(policies, m) {
			continue
		}
		t, ok := m.integer("t")
		if ok && t >= 0 {
			it.span = time.Duration(min(t, maxSeconds)) * time.Second
		}
		it.left, it.stated = r, it.span > 0 || it.window > 0
	}
}

// counts reports whether the limit m counts requests: its policy says so.
func counts(policies []member, m member) bool {
	i := slices.IndexFunc(policies, func(p member) bool { return p.identity() == m.identity() })
	return i < 0 || policies[i].requests()
}

// item returns that of a limit, made if need be.
func (s *statement) item(id identity) *item {
	i := slices.IndexFunc(s.items, func(it item) bool { return it.identity == id })
	if i < 0 {
		i, s.items = len(s.items), append(s.items, item{identity: id})
	}
	return &s.items[i]
}

// xRateLimit reads X-RateLimit-Remaining and X-RateLimit-Reset.
func (s *statement) xRateLimit(h http.Header, now time.Time, epoch bool) {
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
	it := s.item(identity{name: "x-ratelimit"})
	it.left, it.stated = min(left, maxInteger), true
	it.span = time.Duration(min(reset, maxSeconds)) * time.Second
}
