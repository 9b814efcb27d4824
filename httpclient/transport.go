// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httpclient is the client's end of rate limits: a [Transport] keeps to
// what servers state in Retry-After, RateLimit and their like.
package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/pacing"
)

// Fields are families of header fields, which may be combined by |.
type Fields uint8

// The families. Of those by which an answer states what is left, the first counts:
// servers that send several state the same limit in each. RateLimit-Policy alone states
// no such thing.
const (
	// RateLimit is RateLimit and RateLimit-Policy of drafts 7 to 11 of
	// draft-ietf-httpapi-ratelimit-headers, with the parameter sluice-burst of our
	// own, and RateLimit-Remaining and RateLimit-Reset of drafts 3 to 6.
	RateLimit Fields = 1 << iota
	// XRateLimit is X-RateLimit-Remaining and X-RateLimit-Reset. A reset above 10^9
	// is a point in time, in seconds since 1970, and one above 10^12 in milliseconds;
	// any other is in seconds from now.
	XRateLimit
	// NoFields is none of them.
	NoFields
	fieldsEnd
)

// TransportOptions say how a [Transport] keeps to the limits of servers. Every
// zero field means what it says; the zero TransportOptions are ready to use.
type TransportOptions struct {
	// Base sends the requests. Nil means [http.DefaultTransport]. The bodies of
	// its answers may be closed while they are read, as those of net/http may.
	Base http.RoundTripper

	// Fields are the header fields that are obeyed besides Retry-After, which
	// always is. Zero means RateLimit|XRateLimit, all that there are.
	Fields Fields

	// Partition, if not nil, names the budget at its host that a request draws on,
	// such as the name of the API key that it carries. Nil means that all
	// requests to a host draw on one.
	Partition func(*http.Request) string

	// Limiter, if not nil, is a limit of one's own, for servers that state none, or
	// of which one wants to leave some to others. Each attempt takes a unit, and
	// waits for it within MaxWait, behind what the server's limits have it wait: a
	// request that would wait longer is not sent, and the error wraps a
	// [*sluice.DeniedError]. The key is the scheme and host, as in https://api.example,
	// and Partition's text behind a blank. Processes whose Limiters share a store and a
	// scope share the limit. Where its store fails nothing is sent, unless a
	// wrapper as of package remote decides instead.
	Limiter *sluice.Limiter

	// MaxWait is how long a request may be delayed in all, before it is sent
	// and between attempts; at most sluice.MaxWindow. Zero means a minute. A
	// wait that would be longer, or that would outlast the deadline of the
	// request's context, is not started: see [WaitError].
	MaxWait time.Duration

	// MaxRetryAfter bounds how long one answer may delay requests: when it asks for
	// more, one request goes out after MaxRetryAfter all the same, and the others wait
	// for what its answer says. At most sluice.MaxWindow. Zero means
	// 10 minutes, or MaxWait if that is longer: a server that means it is asked
	// six times an hour in vain, and one mistaken answer, such as a point in time
	// where seconds belong, keeps nobody out for a year.
	MaxRetryAfter time.Duration

	// MaxRetries is how often a request is sent again after an answer of 429 or 503,
	// or another of 400 to 599 with a Retry-After. Zero means 3, a negative number never.
	MaxRetries int

	// Repeatable says whether a request may be sent again though its method
	// does not promise that this does no harm. Nil means one that carries an
	// Idempotency-Key. GET, HEAD, OPTIONS, TRACE, PUT and DELETE always may; no
	// request may whose body cannot be had again: set GetBody.
	Repeatable func(*http.Request) bool

	// MaxBudgets is how many budgets, one for each host and partition, are
	// remembered: of more, the one not used for longest is forgotten. Zero
	// means 1024.
	MaxBudgets int

	// OnWait, if not nil, is called before a request is delayed, with how
	// long at least. It must be safe for concurrent use and should be quick.
	OnWait func(r *http.Request, wait time.Duration)
}

// WaitError says that a request was not sent, as its server had asked for a
// longer wait than was allowed.
type WaitError struct {
	Host string
	// Wait is how long it would have been delayed at least, MaxRetryAfter at most; 0
	// if it did not get its turn among the requests that waited before it.
	Wait time.Duration
	err  error
}

// Error says how long the wait would have been.
func (e *WaitError) Error() string {
	why := "longer than MaxWait"
	if e.err != nil {
		why = "past the request's deadline"
	}
	if e.Wait <= 0 {
		return fmt.Sprintf("httpclient: not sent to %s: the wait for its limit is %s", e.Host, why)
	}
	return fmt.Sprintf("httpclient: not sent to %s: its limit asks to wait %v, %s", e.Host, e.Wait, why)
}

// Unwrap returns [context.DeadlineExceeded] if the request's own deadline was
// too close, and nil if MaxWait was.
func (e *WaitError) Unwrap() error { return e.err }

// Transport is an [http.RoundTripper] that keeps to the limits which servers
// state: the client's end of package httplimit, of use with any server that sends
// such fields.
//
// Of "at most r units within t" it makes a pace: requests are spread over t, or
// as the limit's quota allows in the long run if that is more, and go out in the
// order in which they came. When nothing is left the next goes out as soon as
// units that were spent before are back for certain. After a Retry-After, in whole or
// decimal seconds or as a date, of several the longest, no request goes to that host before
// its end, whatever the status from 300 on: also one that a redirect leads there. A
// Retry-After of a success, such as 202, is not obeyed: it says when to ask for the result
// of that one request, which the caller reads, and a delay of all requests to the host
// would stall clients that poll for many results.
//
// What was answered with 429 or 503, or another status from 400 on with a Retry-After, as
// GitHub's 403, is sent again, with a random delay on top so that clients do not come back
// all at once, as often and as long as the options allow; then the answer is handed on as it
// is. Until a host has stated a limit nothing is delayed. No answer holds
// requests back for longer than MaxRetryAfter, and [Transport.Forget] ends a wait that is
// known to be mistaken.
//
// Fields on answers from a cache (Age above 0) are ignored, as they were meant
// for another request; but of a 429 or 503 the Retry-After is obeyed, less the age. A
// cache belongs around a Transport, not within, or else what it could answer at once is
// paced too: examples/client has one, so that repeated reads cost nothing.
//
// It is safe for concurrent use and needs no closing. A goroutine reads a small
// answer that denied off its connection, until the request is sent again or the
// answer's body is closed.
type Transport struct {
	base    http.RoundTripper
	opts    TransportOptions
	budgets *pacing.Budgets
}

// NewTransport returns a Transport, or every fault of o joined.
func NewTransport(o TransportOptions) (*Transport, error) {
	budgets, err := pacing.NewBudgets("httpclient", pacing.Options{
		MaxWait: o.MaxWait, MaxRetryAfter: o.MaxRetryAfter, MaxRetries: o.MaxRetries, MaxBudgets: o.MaxBudgets,
	})
	fault := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf("httpclient: "+format, args...)) }
	switch f := o.Fields; {
	case f >= fieldsEnd:
		fault("Fields: %#x has bits without a meaning", uint8(f))
	case f&NoFields != 0 && f != NoFields:
		fault("Fields: NoFields does not go with others")
	case f == 0:
		o.Fields = RateLimit | XRateLimit
	}
	if err != nil {
		return nil, err
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	return &Transport{base: o.Base, opts: o, budgets: budgets}, nil
}

// CloseIdleConnections closes those of the Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Forget forgets what a host has said of its limits, so that its next requests are
// delayed no longer; those that wait go on. The host is as in a request's URL,
// with the port if that has one: [WaitError] has it. All its partitions are
// meant. What answers to requests on their way say still counts.
func (t *Transport) Forget(host string) { t.budgets.Forget(host) }

// RoundTrip sends the request when its turn has come, and again if it should
// be. It blocks at most for MaxWait longer than the Base does; the end of the
// request's context ends every wait.
// A request that was not sent fails with a [*WaitError].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.URL.Scheme + "://" + r.URL.Host
	if t.opts.Partition != nil {
		key += " " + t.opts.Partition(r)
	}
	b, h := t.budgets.Of(key, r.URL.Host), t.hold(r)
	ticket, err := b.Enter(r.Context(), h)
	if err == nil {
		err = t.take(r, key, b, h)
	}
	if err != nil {
		closeBody(r)
		return nil, held(r, err)
	}
	for attempt := 1; ; attempt++ {
		res, err := t.base.RoundTrip(r)
		if err != nil {
			b.Lost()
			return res, err
		}
		s := t.statement(res, time.Now())
		b.Answered(ticket, s)
		wait, ok := b.Backoff(h, attempt, s)
		if !ok {
			return res, nil
		}
		again, ok := t.repeat(r)
		if !ok {
			return res, nil
		}
		readAhead(res)
		ticket, err = b.EnterAfter(r.Context(), h, wait)
		if err == nil {
			err = t.take(r, key, b, h)
		}
		if err != nil {
			closeBody(again)
			_, refused := errors.AsType[*pacing.WaitError](err)
			if _, denied := errors.AsType[*sluice.DeniedError](err); refused || denied {
				return res, nil // the server's own answer says more than we could
			}
			res.Body.Close() //nolint:errcheck // no one reads on
			return nil, err
		}
		res.Body.Close() //nolint:errcheck // no one reads on
		r = again
	}
}

// take waits for a unit of the Limiter. Without one the request is not sent.
func (t *Transport) take(r *http.Request, key string, b *pacing.Budget, h *pacing.Waiting) error {
	if t.opts.Limiter == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(r.Context(), h.End())
	defer cancel()
	_, err := t.opts.Limiter.Wait(ctx, key, 1)
	if err == nil {
		return nil
	}
	b.Lost()
	if cause := context.Cause(r.Context()); cause != nil {
		return cause
	}
	return fmt.Errorf("httpclient: not sent to %s: %w", r.URL.Host, err)
}

// hold returns how long a request that comes now may wait.
func (t *Transport) hold(r *http.Request) *pacing.Waiting {
	if t.opts.OnWait == nil {
		return t.budgets.Waiting(r.Context(), nil)
	}
	return t.budgets.Waiting(r.Context(), func(wait time.Duration) { t.opts.OnWait(r, wait) })
}

// held returns the error of a request that was not sent.
func held(r *http.Request, err error) error {
	if e, ok := errors.AsType[*pacing.WaitError](err); ok {
		return &WaitError{Host: r.URL.Host, Wait: e.Wait, err: e.Err}
	}
	return err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close() //nolint:errcheck // nothing was read
	}
}
