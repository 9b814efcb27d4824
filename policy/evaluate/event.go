// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// VerdictKind is the outcome of a request.
type VerdictKind uint8

// The kinds of verdict. Each request has one. Each comment names the HTTP status of
// the answer to a request that is not passed on.
const (
	Allowed      VerdictKind = iota // passed on at once: every limit allowed it
	Warned                          // passed on beyond a soft limit, after a delay or at once
	Delayed                         // passed on after a delay
	Denied                          // a limit denied it: 429, or the rule's status
	Refused                         // no usable key, cost or token, or not admitted: 400, 401, 403
	Abandoned                       // its context ended before it was decided or could pass: 503, units given back
	FailedOpen                      // passed on without a limit: the store failed
	FailedClosed                    // the store failed, or the queue is full: 503
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

// Event is a request's verdict and its reason. It may be kept, except Evaluated, and read
// concurrently: it is not changed.
type Event struct {
	Verdict VerdictKind
	// Decision is the store's; zero if it made none. For a denial its RetryAfter includes
	// the [Jitter] of the rule; that of Evaluated.Decision does not.
	Decision sluice.Decision
	// Limit is the limit that binds, by the name that clients read, and Charge its charge.
	// Limit is nil if the store made no decision.
	Limit  *sluice.Term
	Charge sluice.Charge
	// Rule is the rule of the limit that binds, or of the limit of requests in flight that
	// denied; nil if there is none. It must not be changed.
	Rule *policy.Rule
	// Violated holds the names of the limits that denied, the binding one first; for a
	// request that passes, those of shadow rules that would have denied.
	Violated []string
	// Err is the reason why there is no decision: a [*policy.PartError], a
	// [*policy.TokenError] or ErrNotAdmitted if Refused, the context's error if Abandoned, and
	// the error of the store or of a function, or ErrQueueFull if FailedOpen or FailedClosed.
	Err error
	// Evaluated is the policy's verdict, nil if the policy was not evaluated. It is valid
	// only until its [Call] is used again.
	Evaluated *Verdict
}

// retryError is a store error with a time to retry. It may be wrapped by other errors.
type retryError interface {
	error
	RetryIn() time.Duration
}

// Retry returns how long a client should wait before it sends the request again. ok is
// false if the request passes, if no wait would help, or if the time is not known, as
// under a limit of requests in flight. A request that failed may be sent again after its
// delay, after the time of a store error that has a method RetryIn() time.Duration, and after
// a second at least.
func (e *Event) Retry() (wait time.Duration, ok bool) {
	switch e.Verdict {
	case Denied:
		wait = e.Decision.RetryAfter
		return wait, e.Limit != nil && !e.Decision.TooLarge
	case Abandoned, FailedClosed:
		wait = e.Decision.Delay
		if says, ok := errors.AsType[retryError](e.Err); ok {
			wait = max(wait, min(says.RetryIn(), sluice.MaxWindow))
		}
		return max(wait, time.Second), true
	default:
		return 0, false
	}
}

// AppendDetail appends to b a sentence with the reason why a request was not passed on. It
// holds no value that the client sent, and no text of a store error.
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
	case errors.Is(e.Err, errShareFull):
		return append(b, "too many requests under this limit wait for their turn; nothing was charged; retry later"...)
	case errors.Is(e.Err, ErrQueueFull):
		return append(b, "too many requests wait for their turn; nothing was charged; retry later"...)
	case e.Verdict == FailedClosed:
		return append(b, "the rate limit could not be checked; retry later"...)
	}
	return b
}

// seconds returns d in whole seconds, rounded up, and at least one.
func seconds(d time.Duration) int64 {
	return int64((max(d, 1)-1)/time.Second) + 1
}
