// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/pacing"
)

// ClientOptions configure a [Client]. The zero value of every field is valid; the zero
// ClientOptions are ready to use.
type ClientOptions struct {
	// Partition, if not nil, names the budget of a call at its target, such as the name of
	// the API key that it carries. Nil means one budget for all calls to a target. It must
	// be safe for concurrent use.
	Partition func(ctx context.Context, method string) string

	// MaxWait is how long a call may be delayed in all, before it is sent and between
	// attempts; at most sluice.MaxWindow. Zero means a minute. A wait that would be longer,
	// or that would outlast the call's deadline, is not started: see [WaitError].
	MaxWait time.Duration

	// MaxRetryAfter bounds how long one answer may delay calls. If an answer asks for more,
	// one call is sent after MaxRetryAfter anyway, and the others wait for its answer. At most
	// sluice.MaxWindow. Zero means 10 minutes, or MaxWait if that is longer.
	MaxRetryAfter time.Duration

	// MaxRetries is how often a unary call is sent again after a denial. Zero means 3, a
	// negative number never.
	MaxRetries int

	// MaxBudgets is how many budgets are kept at most, one for each target and partition;
	// beyond it the least recently used one is forgotten. Zero means 1024.
	MaxBudgets int

	// OnWait, if not nil, is called before a call is delayed, with the least duration of the
	// delay. It must be safe for concurrent use and quick.
	OnWait func(ctx context.Context, method string, wait time.Duration)
}

// WaitError is the error of a call that was not sent, as its server had asked for a longer
// wait than allowed.
type WaitError struct {
	Target string // as given to grpc.NewClient
	// Wait is the least duration of the wait, MaxRetryAfter at most; 0 if the call did not
	// get its turn among the calls that waited before it.
	Wait time.Duration
	err  error
}

// Error returns how long the wait would have been.
func (e *WaitError) Error() string {
	why := "longer than MaxWait"
	if e.err != nil {
		why = "past the call's deadline"
	}
	if e.Wait <= 0 {
		return fmt.Sprintf("grpclimit: not sent to %s: the wait for its limit is %s", e.Target, why)
	}
	return fmt.Sprintf("grpclimit: not sent to %s: its limit asks to wait %v, %s", e.Target, e.Wait, why)
}

// Unwrap returns [context.DeadlineExceeded] if the call's own deadline was too close, nil if
// MaxWait was too short.
func (e *WaitError) Unwrap() error { return e.err }

// GRPCStatus returns DEADLINE_EXCEEDED if the call's own deadline was too close, and
// RESOURCE_EXHAUSTED if MaxWait was too short. It has no RetryInfo, so that a server that
// returns it does not delay its own callers.
func (e *WaitError) GRPCStatus() *status.Status {
	code := codes.ResourceExhausted
	if e.err != nil {
		code = codes.DeadlineExceeded
	}
	return status.New(code, e.Error())
}

// Client has interceptors that obey the limits that servers state. It works with any
// server that sends RetryInfo or grpc-retry-pushback-ms.
//
// A denial is RESOURCE_EXHAUSTED or UNAVAILABLE with the time of a retry: in the detail
// google.rpc.RetryInfo, or else in grpc-retry-pushback-ms or the longest retry-after of the
// trailer. No call to that target is sent before that time. A unary call is then sent again as
// often and as long as the options and its deadline allow, after a further random delay so
// that clients do not all return at once. After that the server's status is returned
// unchanged. A status without a time, such as that of a message too large, or with a negative
// pushback, is returned and delays no other call.
//
// A Client follows ratelimit-policy and ratelimit, in the header of an answer or the trailer
// of a denial, as package httpclient follows the fields of the same names: calls are sent in
// the order of their arrival, spread over the time of the limit. A quota that only
// denials state applies until none has stated it for MaxRetryAfter. Until a target has stated
// a limit no call is delayed. A call whose server has not answered for a second is assumed to
// be counted, however long it or its stream lasts.
//
// A retryPolicy of grpc-go works below the interceptors, obeys pushbacks too, and does not
// pace its repetitions: a call may reach the server maxAttempts times (MaxRetries + 1) times.
// Leave RESOURCE_EXHAUSTED and UNAVAILABLE out of its retryableStatusCodes, or set MaxRetries
// to -1.
//
// It is safe for concurrent use, for any number of connections, and needs no closing. A call
// costs a timer and copies of its header and trailer, and no goroutine that lasts as long.
type Client struct {
	opts    ClientOptions
	budgets *pacing.Budgets
}

// NewClient returns a Client, or an error that joins all faults of o.
func NewClient(o ClientOptions) (*Client, error) {
	budgets, err := pacing.NewBudgets("grpclimit", pacing.Options{
		MaxWait: o.MaxWait, MaxRetryAfter: o.MaxRetryAfter, MaxRetries: o.MaxRetries, MaxBudgets: o.MaxBudgets,
	})
	if err != nil {
		return nil, err
	}
	return &Client{opts: o, budgets: budgets}, nil
}

// Forget forgets the limits that a target has stated. Its next calls are not delayed, and
// waiting calls continue. The target is as given to [grpc.NewClient] and in [WaitError].
// Forget applies to all its partitions.
func (c *Client) Forget(target string) { c.budgets.Forget(target) }

// DialOptions returns the interceptors of unary calls and of streams. Interceptors of earlier
// options run before them, those of later options after them.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)}
}

// unary is the interceptor of unary calls. A call blocks at most for MaxWait longer than its
// attempts; the end of its context ends every wait. It returns a [*WaitError] for a call that
// was not sent.
func (c *Client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	b, h := c.budget(ctx, method, cc.Target())
	ticket, err := b.Enter(ctx, h)
	if err != nil {
		return unsent(ctx, cc.Target(), err)
	}
	for attempt := 1; ; attempt++ {
		sent := newCall(b, ticket)
		var header, trailer metadata.MD
		answer := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))...)
		wait, again := b.Backoff(h, attempt, sent.heard(answer, header, trailer))
		if !again {
			return answer
		}
		if ticket, err = b.EnterAfter(ctx, h, wait); err != nil {
			if _, refused := errors.AsType[*pacing.WaitError](err); refused {
				return answer // the server's own answer is more specific
			}
			return unsent(ctx, cc.Target(), err)
		}
	}
}

// budget returns the budget of a call, and how long the call may wait.
func (c *Client) budget(ctx context.Context, method, target string) (*pacing.Budget, *pacing.Waiting) {
	key := target
	if c.opts.Partition != nil {
		key += " " + c.opts.Partition(ctx, method)
	}
	var onHold func(time.Duration)
	if c.opts.OnWait != nil {
		onHold = func(wait time.Duration) { c.opts.OnWait(ctx, method, wait) }
	}
	return c.budgets.Of(key, target), c.budgets.Waiting(ctx, onHold)
}

// unsent returns the error of a call that was not sent.
func unsent(ctx context.Context, target string, err error) error {
	if e, ok := errors.AsType[*pacing.WaitError](err); ok {
		return &WaitError{Target: target, Wait: e.Wait, err: e.Err}
	}
	return status.FromContextError(ctx.Err()).Err()
}
