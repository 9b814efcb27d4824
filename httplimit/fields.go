// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Fields are families of header fields, which may be combined by |. The zero value means
// [Draft11]. Every denial has Retry-After, unless waiting does not help.
//
// The names are written with exactly the case shown, which [http.Header.Get] does
// not find: index the header, as in h["RateLimit"].
type Fields uint8

// The families.
const (
	// Draft11 is RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11, in the format of the drafts from 08 on. Items
	// are added to existing fields. The parameter q is the Quota of the window w, as only
	// that gives the pace. A bucket may have more units left, up to its Burst; if that
	// differs from q, and units are refilled one by one, the nonstandard parameter
	// sluice-burst holds it.
	Draft11 Fields = 1 << iota
	// XRateLimit is X-RateLimit-Limit, the units that the binding limit holds when full
	// (the Burst of a bucket, else the Quota; 0 for a block), X-RateLimit-Remaining,
	// X-RateLimit-Reset, the seconds until the key is full again, and on denials
	// X-Ratelimit-Retry-After.
	XRateLimit
	// XRateLimitEpoch is XRateLimit with X-RateLimit-Reset in seconds since 1970.
	XRateLimitEpoch
	// NoFields is none of them.
	NoFields
	fieldsEnd
)

// ParseFields returns the families of the words draft-11, x-ratelimit, x-ratelimit-epoch and
// none. Without a word it returns zero. Another word, and words that exclude each other, are an
// error.
func ParseFields(words ...string) (f Fields, err error) {
	families := map[string]Fields{"draft-11": Draft11, "x-ratelimit": XRateLimit, "x-ratelimit-epoch": XRateLimitEpoch, "none": NoFields}
	for _, word := range words {
		of, ok := families[word]
		if !ok {
			return 0, fmt.Errorf("httplimit: fields %q; use draft-11, x-ratelimit, x-ratelimit-epoch or none", word)
		}
		f |= of
	}
	if f == 0 {
		return 0, nil
	}
	return f, f.check()
}

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

// paramBurst is a nonstandard parameter in RateLimit-Policy: the burst of a bucket without
// debt and with continuous refill, if it differs from the quota.
const paramBurst = "sluice-burst"

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// check returns an error for families that do not go together.
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

// appendPolicy appends the item of RateLimit-Policy for a limit. Windows that are not whole
// seconds, or that differ in length, are left out: w is optional, and any number would be
// wrong. The burst is included where units are refilled one by one: without it a client
// cannot keep a pace of more than a request a second under a small burst, as t is in whole
// seconds.
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

// appendItem appends name as a String. Names of limits need no escaping.
func appendItem(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

func appendParam(b []byte, param string, n int64) []byte {
	return strconv.AppendInt(append(b, param...), min(max(n, 0), maxInteger), 10)
}

// Set sets the header fields for a decision in the header of its answer, for fronts that
// decide without a [Middleware]: limits are all that applied, and binding is the one of them
// that binds. Zero Fields mean [Draft11]. Items are added to existing RateLimit fields.
func (f Fields) Set(h http.Header, limits iter.Seq[*sluice.Term], binding *sluice.Term, d sluice.Decision) {
	if f == 0 {
		f = Draft11
	}
	f.set(h, &memory{alone: true}, &limitItem{head: headOf(binding), full: fullOf(binding)}, policiesOf(limits), &d)
}

// policiesOf returns RateLimit-Policy of limits.
func policiesOf(limits iter.Seq[*sluice.Term]) string {
	b := make([]byte, 0, 128)
	for t := range limits {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = appendPolicy(b, t)
	}
	return string(b)
}

// headOf returns the beginning of RateLimit.
func headOf(t *sluice.Term) string { return string(append(appendItem(nil, t.Name), ";r="...)) }

// fullOf returns X-RateLimit-Limit.
func fullOf(t *sluice.Term) string {
	if t.Block.For > 0 { // a block binds only a key that it denies
		return "0"
	}
	return strconv.FormatInt(t.Full, 10)
}

// set is Set with the limit's constant texts, and memory for the values.
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

// count returns the largest number of fields that set may write.
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

// texts are the variable texts of a decision, with the numbers in them.
type texts struct {
	of                     *limitItem
	left, seconds, resetIn int64

	item      string // of RateLimit
	remaining string // X-RateLimit-Remaining
	reset     string // X-RateLimit-Reset
	wait      string // Retry-After
}

// textsOf returns the texts of a decision. It returns the last texts if their numbers are the
// same, as for most idle keys, and under attack.
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

// write writes the texts. All share one string, and equal numbers share bytes.
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

// setRetryAfter sets Retry-After, in seconds rounded up, for a request that failed or was
// abandoned. It keeps an existing field.
func setRetryAfter(h http.Header, e *evaluate.Event) {
	if e.Verdict != evaluate.FailedClosed && e.Verdict != evaluate.Abandoned || h[fieldRetryAfter] != nil {
		return
	}
	if wait, ok := e.Retry(); ok {
		h[fieldRetryAfter] = []string{strconv.FormatInt(ceilSeconds(wait), 10)}
	}
}

// addField adds a field to the items of an outer limiter, as both RateLimit fields are lists.
func addField(h http.Header, bare bool, key string, value []string) {
	if !bare { // a bare header has no items
		if before := h[key]; len(before) > 0 {
			value = append(slices.Clip(before), value...)
		}
	}
	h[key] = value
}

// effective returns t, the seconds for which "at most r units" holds.
//
// For an allowed request, r units remain, and no fewer before the key is full again if only
// this client draws on it: t is the time until then. For a denied one r may be too little, and
// t is the time until it fits, the same as Retry-After, which is therefore never within t. If
// it can never fit, t is as for an allowed one.
func effective(d *sluice.Decision) int64 {
	if !d.Allowed && !d.TooLarge {
		return max(ceilSeconds(d.RetryAfter), 1)
	}
	return ceilSeconds(d.ResetAfter)
}

// ceilSeconds returns d in whole seconds, rounded up: never too early.
func ceilSeconds(d time.Duration) int64 {
	return up(max(d, 0), time.Second)
}

// epochAfter returns the first whole second since 1970 that lies d or more
// after now.
func epochAfter(now time.Time, d time.Duration) int64 {
	return now.Add(max(d, 0)).Add(time.Second - 1).Unix()
}
