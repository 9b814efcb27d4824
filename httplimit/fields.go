// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Fields are families of header fields, which may be combined by |. The zero
// value means [Draft11]. Retry-After goes with every denial in any case, but
// where no wait would help.
//
// They are written with exactly the case shown, which [http.Header.Get] does
// not find: index the header, as in h["RateLimit"].
type Fields uint8

// The families.
const (
	// Draft11 is RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11, whose format is that of the
	// drafts from 08 on. They add to fields that are there already. The policy's
	// q is the Quota of its window w, as only that says the pace. A bucket may
	// have more left, up to its Burst: where that differs, and units come back one
	// by one, it is in a parameter of our own, sluice-burst.
	Draft11 Fields = 1 << iota
	// XRateLimit is X-RateLimit-Limit, the units that the binding limit holds
	// when full (the Burst of a bucket, else the Quota; 0 of a block), X-RateLimit-Remaining,
	// X-RateLimit-Reset, which is in seconds from now until the key has fully
	// refilled, and on denials X-Ratelimit-Retry-After.
	XRateLimit
	// XRateLimitEpoch is XRateLimit with X-RateLimit-Reset in seconds since 1970.
	XRateLimitEpoch
	// NoFields is none of them.
	NoFields
	fieldsEnd
)

// The names, with the case they have on the wire.
const (
	fieldPolicy     = "RateLimit-Policy"
	fieldRateLimit  = "RateLimit"
	fieldRetryAfter = "Retry-After"
	fieldXLimit     = "X-RateLimit-Limit"
	fieldXRemaining = "X-RateLimit-Remaining"
	fieldXReset     = "X-RateLimit-Reset"
	fieldXRetry     = "X-Ratelimit-Retry-After"
)

// paramBurst is a parameter of our own in RateLimit-Policy: how many units a
// bucket holds that has no debt and refills all the time, if not its quota.
const paramBurst = "sluice-burst"

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// check says which families do not go together.
func (f Fields) check() error {
	switch {
	case f >= fieldsEnd:
		return fmt.Errorf("%#x has bits without a meaning", uint8(f))
	case f&NoFields != 0 && f != NoFields:
		return errors.New("NoFields does not go with others")
	case f&XRateLimit != 0 && f&XRateLimitEpoch != 0:
		return errors.New("XRateLimit and XRateLimitEpoch write the same fields; choose one")
	}
	return nil
}

// PolicyItem returns the item of RateLimit-Policy that describes a limit, whose
// Name may have no byte that a structured field's String must escape.
func PolicyItem(limit *sluice.Term) string { return string(appendPolicy(nil, limit)) }

// appendPolicy appends the item of RateLimit-Policy for a limit. Windows that
// are not whole seconds, or differ in length, are left out: w is optional, and
// any number would be wrong. The burst is reported where each spent unit is back after
// its share of the window: by that alone a client can keep a pace of more than a
// request a second under a small one, as t is in whole seconds.
func appendPolicy(b []byte, t *sluice.Term) []byte {
	b = appendItem(b, t.Name)
	b = appendParam(b, ";q=", t.Quota)
	if t.Unit == sluice.Bytes {
		b = append(b, `;qu="content-bytes"`...)
	}
	if t.Window%time.Second == 0 && t.Calendar != sluice.Month && t.Calendar != sluice.Year {
		b = appendParam(b, ";w=", int64(t.Window/time.Second))
	}
	if t.Burst != t.Quota && t.Burst > 0 && t.Debt == 0 && t.Refill == sluice.Continuous {
		b = appendParam(b, ";"+paramBurst+"=", t.Burst)
	}
	return b
}

// appendItem appends name as a String. Names of limits have no byte that
// would need escaping.
func appendItem(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

func appendParam(b []byte, param string, n int64) []byte {
	return strconv.AppendInt(append(b, param...), min(max(n, 0), maxInteger), 10)
}

// Set writes what a client sees of a decision into the header of its answer:
// for fronts that decide by other means than a [Middleware]. The limit is the
// one that binds; policy is the value of RateLimit-Policy, a list of
// [PolicyItem] of all limits that applied. Zero means [Draft11]. It adds to
// RateLimit fields that are there already.
func (f Fields) Set(h http.Header, policy string, t *sluice.Term, d sluice.Decision) {
	if f == 0 {
		f = Draft11
	}
	f.set(h, &memory{alone: true}, &limitItem{head: headOf(t), full: fullOf(t)}, policy, &d)
}

// headOf returns what RateLimit begins with.
func headOf(t *sluice.Term) string { return string(append(appendItem(nil, t.Name), ";r="...)) }

// fullOf returns X-RateLimit-Limit.
func fullOf(t *sluice.Term) string {
	if t.Block.For > 0 { // which binds only a key that it denies all
		return "0"
	}
	return strconv.FormatInt(t.Full(), 10)
}

// set is Set with what is always said of the limit, and memory for the values.
func (f Fields) set(h http.Header, m *memory, of *limitItem, policy string, d *sluice.Decision) {
	denied := !d.Allowed && !d.TooLarge
	n := f.count(denied)
	if n == 0 {
		return
	}
	say := f.textsOf(m, of, d)
	values, bare := m.strings(n), len(h) == 0
	if f&Draft11 != 0 {
		values[0], values[1] = say.item, policy
		addField(h, bare, fieldRateLimit, values[0:1:1])
		addField(h, bare, fieldPolicy, values[1:2:2])
		values = values[2:]
	}
	x := f&(XRateLimit|XRateLimitEpoch) != 0
	if x {
		values[0], values[1], values[2] = of.full, say.remaining, say.reset
		h[fieldXLimit], h[fieldXRemaining], h[fieldXReset] = values[0:1:1], values[1:2:2], values[2:3:3]
		values = values[3:]
	}
	if denied {
		values[0], values[1] = say.wait, say.wait
		if h[fieldRetryAfter] = values[0:1:1]; x {
			h[fieldXRetry] = values[1:2:2]
		}
	}
}

// count returns how many fields there may be.
func (f Fields) count(denied bool) (n int) {
	if f&Draft11 != 0 {
		n += 2
	}
	if f&(XRateLimit|XRateLimitEpoch) != 0 {
		n += 3
	}
	if denied {
		n += 2
	}
	return n
}

// texts are those in which decisions differ, and what they say.
type texts struct {
	of                     *limitItem
	left, seconds, resetIn int64

	item      string // of RateLimit
	remaining string // X-RateLimit-Remaining
	reset     string // X-RateLimit-Reset
	wait      string // Retry-After
}

// textsOf returns the texts of a decision: those of the last one if it says the same, as do
// most of keys that are seldom used, and under attack.
func (f Fields) textsOf(m *memory, of *limitItem, d *sluice.Decision) *texts {
	s := &m.last
	seconds := effective(d)
	resetIn := seconds
	switch {
	case f&XRateLimitEpoch != 0:
		resetIn = epochAfter(time.Now(), d.ResetAfter)
	case !d.Allowed:
		resetIn = ceilSeconds(d.ResetAfter)
	}
	if s.of != of || s.left != d.Remaining || s.seconds != seconds || s.resetIn != resetIn {
		s.of, s.left, s.seconds, s.resetIn = of, d.Remaining, seconds, resetIn
		s.write(m)
	}
	return s
}

// write writes the texts. All lie in one string, and what says the same has the same
// bytes.
func (s *texts) write(m *memory) {
	const between = ";t="
	var buf [128]byte
	b := append(buf[:0], s.of.head...)
	b = append(appendParam(b, "", s.left), between...)
	wait := len(b)
	b = appendParam(b, "", s.seconds)
	end := len(b)
	if s.resetIn != s.seconds {
		b = strconv.AppendInt(b, s.resetIn, 10)
	}
	resetEnd := len(b)
	if s.left > maxInteger {
		b = strconv.AppendInt(b, s.left, 10)
	}
	text := m.string(b)
	s.item, s.remaining, s.wait = text[:end], text[len(s.of.head):wait-len(between)], text[wait:end]
	if s.reset = s.wait; s.resetIn != s.seconds {
		s.reset = text[end:resetEnd]
	}
	if s.left > maxInteger {
		s.remaining = text[resetEnd:]
	}
}

// setRetryAfter answers a request that was not decided, or not in
// time, when to come again, in seconds rounded up. It says no more than what is
// said.
func setRetryAfter(h http.Header, e *policy.Event) {
	if e.Verdict != policy.FailedClosed && e.Verdict != policy.Abandoned || h[fieldRetryAfter] != nil {
		return
	}
	if wait, ok := e.Retry(); ok {
		h[fieldRetryAfter] = []string{strconv.FormatInt(ceilSeconds(wait), 10)}
	}
}

// addField keeps the items of a limiter further out: both fields are lists.
func addField(h http.Header, bare bool, key string, value []string) {
	if !bare { // else there are none
		if before := h[key]; len(before) > 0 {
			value = append(slices.Clip(before), value...)
		}
	}
	h[key] = value
}

// effective returns t: the seconds for which "at most r units" is true.
//
// Of an allowed request r is what remains, and it does not become less before
// the key is fully refilled, if only this client draws on it: so t lasts until
// then. Of a denied one r may be too little for it, and t lasts until it fits;
// Retry-After is the same, so that it never points into t. Where it never fits,
// t is as of an allowed one.
func effective(d *sluice.Decision) int64 {
	if !d.Allowed && !d.TooLarge {
		return max(ceilSeconds(d.RetryAfter), 1)
	}
	return ceilSeconds(d.ResetAfter)
}

// ceilSeconds returns d in whole seconds, rounded up: never too early.
func ceilSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}

// epochAfter returns the first whole second since 1970 that lies d or more
// after now.
func epochAfter(now time.Time, d time.Duration) int64 {
	at := now.Add(max(d, 0))
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}
