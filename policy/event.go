// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

// VerdictKind is the outcome of a request.
type VerdictKind uint8

// The kinds of verdict, of which each request has one. HTTP's answer to a request that is
// not passed on stands behind each.
const (
	Allowed      VerdictKind = iota // passed on at once: every limit allowed it
	Warned                          // passed on beyond a soft limit, after a delay or at once
	Delayed                         // passed on after a delay
	Denied                          // a limit denied it: 429, or the rule's status
	Refused                         // it has no usable key, cost or token, or is not let in: 400, 401, 403
	Abandoned                       // its context ended before it was decided or its turn came: 503, units given back
	FailedOpen                      // passed on without a limit: the store failed
	FailedClosed                    // the store failed, or too many wait: 503
	verdictKinds
)

var verdictNames = [...]string{
	Allowed: "allowed", Warned: "warned", Delayed: "delayed", Denied: "denied", Refused: "refused",
	Abandoned: "abandoned", FailedOpen: "failed-open", FailedClosed: "failed-closed",
}

// Passes reports whether the request may be passed on.
func (k VerdictKind) Passes() bool {
	return k == Allowed || k == Warned || k == Delayed || k == FailedOpen
}

// String returns the kind's name, fit for a metric's label.
func (k VerdictKind) String() string {
	if k < verdictKinds {
		return verdictNames[k]
	}
	return fmt.Sprintf("VerdictKind(%d)", uint8(k))
}

// Event is a request's verdict and its reason. It may be kept, but for Evaluated,
// and read concurrently: it is not changed.
type Event struct {
	Verdict VerdictKind
	// Decision is the store's; zero if it made none. That of a denial says when to
	// come again with the [Jitter] of its rule, and Evaluated.Decision without.
	Decision sluice.Decision
	// Limit is the one that binds, by the name that clients read, and Charge what
	// it was charged. Limit is nil if the store made no decision.
	Limit  *sluice.Term
	Charge sluice.Charge
	// Rule is the rule of the limit that binds, or whose limit of requests in
	// flight has denied; nil if there is none. It must not be changed.
	Rule *Rule
	// Violated holds the names of the limits that denied, the binding one first; of a
	// request that passes, those of rules in shadow mode that would have.
	Violated []string
	// Err is why there is no decision: a [*PartError], a [*TokenError] or
	// ErrNotAdmitted if Refused, the context's error if Abandoned, and the error of
	// the store or of a function, ErrQueueFull or ErrShareFull if failed.
	Err error
	// Evaluated is what the policy had to say, nil if it was not asked. It is valid
	// only until its [Call] is used again.
	Evaluated *Verdict
}

// RetryError is an error of a store that knows when to try again. A client whose
// request was not decided because of it is reported. It is found behind other
// errors, too.
type RetryError interface {
	error
	// RetryIn returns after how long the caller should come back.
	RetryIn() time.Duration
}

// Retry returns how long a client should wait before it sends the request again.
// It is not ok where no wait would help, where nobody knows, as of a limit of
// requests in flight, and of a request that passes. What failed may come again
// after the delay that it was delayed by, when the error says, or in a second.
func (e *Event) Retry() (wait time.Duration, ok bool) {
	switch e.Verdict {
	case Denied:
		wait = e.Decision.RetryAfter
		return wait, e.Limit != nil && !e.Decision.TooLarge
	case Abandoned, FailedClosed:
		wait = e.Decision.Delay
		if says, ok := errors.AsType[RetryError](e.Err); ok {
			wait = max(wait, min(says.RetryIn(), sluice.MaxWindow))
		}
		return max(wait, time.Second), true
	default:
		return 0, false
	}
}

// AppendDetail appends to b, in words, why a request was not passed on. There is
// nothing in it that the client sent, and nothing of an error of the store.
func (e *Event) AppendDetail(b []byte) []byte {
	switch {
	case e.Verdict == Denied && e.Limit != nil && e.Decision.TooLarge:
		b = strconv.AppendInt(append(b, "this request costs "...), e.Charge.Cost, 10)
		b = append(append(b, ' '), e.Limit.Unit.String()...)
		b = append(append(b, `, which is more than the limit "`...), e.Limit.Name...)
		return append(b, `" can ever allow; send a smaller one`...)
	case e.Verdict == Denied && e.Limit != nil && e.Limit.Block.For > 0:
		b = append(append(b, `after too many denied requests the limit "`...), e.Limit.Name...)
		b = strconv.AppendInt(append(b, `" denies all; retry after `...), seconds(e.Decision.RetryAfter), 10)
		return append(b, " s"...)
	case e.Verdict == Denied && e.Limit != nil:
		b = append(append(b, `the quota of the limit "`...), e.Limit.Name...)
		b = strconv.AppendInt(append(b, `" is used up; retry after `...), seconds(e.Decision.RetryAfter), 10)
		return append(b, " s"...)
	case e.Verdict == Denied && len(e.Violated) > 0:
		b = append(append(b, `as many requests as the limit "`...), e.Violated[0]...)
		return append(b, `" allows are in flight; retry when one has ended`...)
	case e.Verdict == Refused && e.Err != nil:
		return append(b, e.Err.Error()...)
	case e.Verdict == Abandoned:
		return append(b, "the request ended before its turn came; nothing was charged"...)
	case errors.Is(e.Err, ErrQueueFull):
		return append(b, "too many requests wait for their turn; nothing was charged; retry later"...)
	case errors.Is(e.Err, ErrShareFull):
		return append(b, "too many requests under this limit wait for their turn; nothing was charged; retry later"...)
	case e.Verdict == FailedClosed:
		return append(b, "the rate limit could not be checked; retry later"...)
	}
	return b
}

// seconds returns d in whole seconds, rounded up, and at least one.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return max(n, 1)
}
