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

	"github.com/sluicegate/sluice/internal/pacing"
)

// ClientOptions say how a [Client] keeps to the limits of servers. Every zero
// field means what it says; the zero ClientOptions are ready to use.
type ClientOptions struct {
	// Partition, if not nil, names the budget at its target that a call draws on, such
	// as the name of the API key that it carries. Nil means that all calls to a
	// target draw on one. It must be safe for concurrent use.
	Partition func(ctx context.Context, method string) string

	// MaxWait is how long a call may be delayed in all, before it is sent and
	// between attempts; at most sluice.MaxWindow. Zero means a minute. A wait that
	// would be longer, or that would outlast the call's deadline, is not started: see
	// [WaitError].
	MaxWait time.Duration

	// MaxRetryAfter bounds how long one answer may hold calls back: when it asks for
	// more, one call goes out after MaxRetryAfter all the same, and the others wait for
	// what its answer says. At most sluice.MaxWindow. Zero means 10 minutes, or
	// MaxWait if that is longer.
	MaxRetryAfter time.Duration

	// MaxRetries is how often a unary call is sent again after a denial. Zero means
	// 3, a negative number never.
	MaxRetries int

	// MaxBudgets is how many budgets, one for each target and partition, are
	// remembered: of more, the one not used for longest is forgotten. Zero means
	// 1024.
	MaxBudgets int

	// OnWait, if not nil, is called before a call is delayed, with how long at
	// least. It must be safe for concurrent use and should be quick.
	OnWait func(ctx context.Context, method string, wait time.Duration)
}

// WaitError says that a call was not sent, as its server had asked for a longer
// wait than was allowed.
type WaitError struct {
	Target string // as given to grpc.NewClient
	// Wait is how long it would have been delayed at least, MaxRetryAfter at most; 0
	// if it did not get its turn among the calls that waited before it.
	Wait time.Duration
	err  error
}

// Error says how long the wait would have been.
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

// Unwrap returns [context.DeadlineExceeded] if the call's own deadline was too
// close, and nil if MaxWait was.
func (e *WaitError) Unwrap() error { return e.err }

// GRPCStatus returns DEADLINE_EXCEEDED if the call's own deadline was too close,
// and RESOURCE_EXHAUSTED if MaxWait was. It has no RetryInfo: a server that hands
// it on does not hold its own callers back.
func (e *WaitError) GRPCStatus() *status.Status {
	code := codes.ResourceExhausted
	if e.err != nil {
		code = codes.DeadlineExceeded
	}
	return status.New(code, e.Error())
}

// Client has the interceptors that keep to the limits which servers state: the
// client's end of this package, of use with any server that sends RetryInfo or
// grpc-retry-pushback-ms.
//
// A call is denied by RESOURCE_EXHAUSTED or UNAVAILABLE that says when to come
// back: by the detail google.rpc.RetryInfo, or else by grpc-retry-pushback-ms or
// the longest retry-after in the trailer. No call goes to that target before, and a unary call
// is sent again, with a random delay on top so that clients do not come back all
// at once, as often and as long as the options and its deadline allow; then the
// server's own status is handed on as it is. One without such a word, as of a
// message too large, or with a negative pushback is handed on at once and holds
// nothing back.
//
// Of ratelimit-policy and ratelimit, in the header of an answer or the trailer of a
// denial, a Client makes a pace, as a transport of package httpclient does of the
// fields of the same names: calls go out in the order in which they came, spread
// over the time that the limit is for. A quota that only denials state is kept to
// until none has for MaxRetryAfter. Until a target has stated a limit nothing is held
// back. A call whose server says nothing for a second is taken for counted, however
// long it or its stream lasts.
//
// A retryPolicy of grpc-go works below the interceptors, obeys pushbacks too, and
// does not pace what it repeats: a call that it repeats as well may reach the
// server maxAttempts times (MaxRetries + 1) times. Leave RESOURCE_EXHAUSTED and
// UNAVAILABLE out of its retryableStatusCodes, or set MaxRetries to -1.
//
// It is safe for concurrent use, for any number of connections, and needs no
// closing. A call costs a timer and copies of its header and trailer; no goroutine
// of a Client lasts as long as a call.
type Client struct {
	opts    ClientOptions
	budgets *pacing.Budgets
}

// NewClient returns a Client, or every fault of o joined.
func NewClient(o ClientOptions) (*Client, error) {
	budgets, err := pacing.NewBudgets("grpclimit", pacing.Options{
		MaxWait: o.MaxWait, MaxRetryAfter: o.MaxRetryAfter, MaxRetries: o.MaxRetries, MaxBudgets: o.MaxBudgets,
	})
	if err != nil {
		return nil, err
	}
	return &Client{opts: o, budgets: budgets}, nil
}

// Forget forgets what a target has said of its limits, so that its next calls are
// delayed no longer; those that wait go on. The target is as given to
// [grpc.NewClient]: [WaitError] has it. All its partitions are meant.
func (c *Client) Forget(target string) { c.budgets.Forget(target) }

// DialOptions returns both interceptors, within those that stand before.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream)}
}

// Unary is the interceptor of unary calls. A call blocks at most for MaxWait longer
// than its attempts do; the end of its context ends every wait.
// It returns a [*WaitError] for a call that was not sent.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
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
				return answer // it says more than we could
			}
			return unsent(ctx, cc.Target(), err)
		}
	}
}

// budget returns the budget that a call draws on, and how long the call may wait.
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
