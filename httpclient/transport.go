// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httpclient keeps a client to the rate limits of servers: a [Transport] obeys
// Retry-After, RateLimit and similar fields.
package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/pacing"
)

// TransportOptions configure a [Transport]. The zero value of every field is valid; the zero
// TransportOptions are ready to use.
type TransportOptions struct {
	// Base sends the requests. Nil means [http.DefaultTransport]. The bodies of its answers
	// must allow Close during Read, as those of net/http do.
	Base http.RoundTripper

	// IgnoreRateLimit ignores RateLimit and RateLimit-Policy of drafts 7 to 11 of
	// draft-ietf-httpapi-ratelimit-headers, with the nonstandard parameter sluice-burst, and
	// RateLimit-Remaining and RateLimit-Reset of drafts 3 to 6. IgnoreXRateLimit ignores
	// X-RateLimit-Remaining and X-RateLimit-Reset: a reset above 10^9 is a point in time, in
	// seconds since 1970, and one above 10^12 in milliseconds; any other is in seconds from
	// now. The first of these families in which an answer states the remaining units applies.
	// Retry-After is always obeyed.
	IgnoreRateLimit, IgnoreXRateLimit bool

	// Partition, if not nil, names the budget of a request at its host, such as the name of
	// the API key that it carries. Nil means one budget for all requests to a host.
	Partition func(*http.Request) string

	// Limiter, if not nil, is a limit of the client's own, for servers that state none, or to
	// leave part of a server's limit to others. Each attempt waits for a unit within MaxWait,
	// after any wait for the server's limits. A request that would wait longer is not sent,
	// and the error wraps a [*sluice.DeniedError]. The key is the scheme and host, as in
	// https://api.example, followed by a blank and Partition's text. Processes whose Limiters
	// share a store and a scope share the limit. If the store fails nothing is sent, unless
	// a wrapper such as that of package remote decides instead.
	Limiter *sluice.Limiter

	// MaxWait is how long a request may be delayed in all, before it is sent and between
	// attempts; at most sluice.MaxWindow. Zero means a minute. A wait that would be longer, or
	// that would outlast the deadline of the request's context, is not started: see
	// [WaitError].
	MaxWait time.Duration

	// MaxRetryAfter bounds how long one answer may delay requests. If an answer asks for more,
	// one request is sent after MaxRetryAfter anyway, and the others wait for its answer. At
	// most sluice.MaxWindow. Zero means 10 minutes, or MaxWait if that is longer:
	// a server that means a longer time gets six requests an hour in vain, and a mistaken
	// answer, such as a point in time instead of seconds, does not stop a client for a year.
	MaxRetryAfter time.Duration

	// MaxRetries is how often a request is sent again after an answer of 429 or 503,
	// or another of 400 to 599 with a Retry-After. Zero means 3, a negative number never.
	MaxRetries int

	// Repeatable reports whether a request may be sent again whose method is not
	// idempotent. Nil means that it carries an Idempotency-Key. GET, HEAD, OPTIONS, TRACE,
	// PUT and DELETE may always be repeated. No request is repeated whose body cannot be
	// read again: set GetBody.
	Repeatable func(*http.Request) bool

	// MaxBudgets is how many budgets are kept at most, one for each host and partition;
	// beyond it the least recently used one is forgotten. Zero means 1024.
	MaxBudgets int

	// OnWait, if not nil, is called before a request is delayed, with the least duration of
	// the delay. It must be safe for concurrent use and quick.
	OnWait func(r *http.Request, wait time.Duration)
}

// WaitError is the error of a request that was not sent, as its server had asked for a longer
// wait than allowed.
type WaitError struct {
	Host string
	// Wait is the least duration of the wait, MaxRetryAfter at most; 0 if the request did not
	// get its turn among the requests that waited before it.
	Wait time.Duration
	err  error
}

// Error returns how long the wait would have been.
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

// Unwrap returns [context.DeadlineExceeded] if the request's own deadline was too close, nil if
// MaxWait was too short.
func (e *WaitError) Unwrap() error { return e.err }

// Transport is an [http.RoundTripper] that keeps to the limits that servers state. It works
// with any server that sends such fields.
//
// "At most r units within t" makes a pace: requests are spread over t, or sent at the pace of
// the limit's quota if that is faster, in the order of their arrival. When nothing is left,
// the next request is sent as soon as units spent before have certainly been refilled. A
// Retry-After of any status from 300 on, in whole or decimal seconds or as a date, delays all
// requests to that host until its end, redirected ones included; of several the longest
// applies. A Retry-After of a success, such as 202, is not obeyed: it is about the result of
// that one request, and a delay of all requests to the host would stall clients that poll for
// many results.
//
// A request answered with 429 or 503, or another status from 400 on with a Retry-After, such
// as GitHub's 403, is sent again as often and as long as the options allow, after a further
// random delay so that clients do not all return at once. After that the answer is returned
// unchanged. Until a host has stated a limit no request is delayed. No answer delays requests
// for longer than MaxRetryAfter, and [Transport.Forget] ends a wait that is known to be
// mistaken.
//
// Fields of answers from a cache (Age above 0) are ignored, as they were meant for another
// request; but the Retry-After of a 429 or 503 is obeyed, less the age. Put a cache around a
// Transport, not within it: otherwise answers from the cache are paced, too. The example
// examples/client has one, so that repeated reads cost nothing.
//
// It is safe for concurrent use and needs no closing. A goroutine reads the small answer of a
// denial from its connection, until the request is sent again or the answer's body is closed.
type Transport struct {
	base    http.RoundTripper
	opts    TransportOptions
	budgets *pacing.Budgets
}

// NewTransport returns a Transport, or an error that joins all faults of o.
func NewTransport(o TransportOptions) (*Transport, error) {
	budgets, err := pacing.NewBudgets("httpclient", pacing.Options{
		MaxWait: o.MaxWait, MaxRetryAfter: o.MaxRetryAfter, MaxRetries: o.MaxRetries, MaxBudgets: o.MaxBudgets,
	})
	if err != nil {
		return nil, err
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	return &Transport{base: o.Base, opts: o, budgets: budgets}, nil
}

// CloseIdleConnections closes the idle connections of the Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Forget forgets the limits that a host has stated. Its next requests are not delayed, and
// waiting requests continue. The host is as in a request's URL and in [WaitError], with the
// port if there is one. Forget applies to all its partitions. Answers to requests in flight
// still count.
func (t *Transport) Forget(host string) { t.budgets.Forget(host) }

// RoundTrip sends the request when the limits allow, and again after a denial if it may be
// repeated. It blocks at most for MaxWait longer than the Base; the end of the request's
// context ends every wait. A request that was not sent fails with a [*WaitError].
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
				return res, nil // the server's own answer is more specific
			}
			res.Body.Close() //nolint:errcheck // no one reads on
			return nil, err
		}
		res.Body.Close() //nolint:errcheck // no one reads on
		r = again
	}
}

// take waits for a unit of the Limiter, if there is one.
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

// hold returns how long a request that begins now may wait.
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
