// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// client is a request of a client.
func client(addr string) *policy.StaticAttributes {
	return &policy.StaticAttributes{RequestMethod: "POST", RequestPath: "/x", Address: netip.MustParseAddr(addr)}
}

func newFront(t *testing.T, o policy.FrontOptions) *policy.Front {
	t.Helper()
	if o.Store == nil {
		o.Store = memstore.New(memstore.Options{})
	}
	f, err := policy.NewFront(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFrontAnswers: the answers of a front by kind of verdict.
func TestFrontAnswers(t *testing.T) {
	down := errors.New("down")
	never := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
	never.Cost.Units = 2
	closed := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
	closed.Failure = sluice.FailClosed
	full := policy.Rule{Name: "full", Levels: []policy.Level{{InFlight: &sluice.SlotLimit{Name: "one", Cap: 1}}}}
	token := policy.NewRule("api", policy.Claim("sub"), sluice.PerMinute(1))
	plain := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
	key := policy.NewRule("api", policy.Header("User"), sluice.PerMinute(1))
	network := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	expired := &policy.StaticAttributes{Address: netip.MustParseAddr("192.0.2.1"), Token: &policy.TokenError{Problem: "the token has expired"}}
	for _, c := range []struct {
		name     string
		rule     policy.Rule
		options  policy.FrontOptions
		request  *policy.StaticAttributes
		before   int // requests that pass
		verdict  policy.VerdictKind
		code     uint32
		wait     time.Duration
		known    bool
		violated string
		detail   string
	}{
		{"allowed", plain, policy.FrontOptions{}, nil, 0, policy.Allowed, 0, 0, false, "", ""},
		{"denied", plain, policy.FrontOptions{}, nil, 1, policy.Denied, 8, time.Minute, true, "api", `the quota of the limit "api" is used up; retry after 60 s`},
		{"never fits", never, policy.FrontOptions{}, nil, 0, policy.Denied, 8, sluice.MaxRetryAfter, false, "api", `this request costs 2 requests, which is more than the limit "api" can ever allow; send a smaller one`},
		{"in flight", full, policy.FrontOptions{}, nil, 1, policy.Denied, 8, 0, false, "full/one", `as many requests as the limit "full/one" allows are in flight; retry when one has ended`},
		{"no key", key, policy.FrontOptions{}, nil, 0, policy.Refused, 3, 0, false, "", "header User is missing"},
		{"no token", token, policy.FrontOptions{}, expired, 0, policy.Refused, 16, 0, false, "", "the token has expired"},
		{"not let in", plain, policy.FrontOptions{Deny: network}, nil, 0, policy.Refused, 7, 0, false, "", "requests from this network are not allowed"},
		{"closed", closed, policy.FrontOptions{Store: testkit.Failing(down)}, nil, 0, policy.FailedClosed, 14, time.Second, true, "", "the rate limit could not be checked; retry later"},
		{"closed, and the store knows for how long", closed, policy.FrontOptions{Store: testkit.Failing(later{})}, nil, 0, policy.FailedClosed, 14, time.Hour, true, "", "the rate limit could not be checked; retry later"},
		{"closed for ever", closed, policy.FrontOptions{Store: testkit.Failing(forever{})}, nil, 0, policy.FailedClosed, 14, sluice.MaxWindow, true, "", "the rate limit could not be checked; retry later"},
		{"open", plain, policy.FrontOptions{Store: testkit.Failing(down)}, nil, 0, policy.FailedOpen, 0, 0, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []policy.VerdictKind
				c.options.Rules = []policy.Rule{c.rule}
				c.options.OnDecision = func(_ context.Context, _ policy.Attributes, e *policy.Event) { reported = append(reported, e.Verdict) }
				c.options.OnError = func(_ context.Context, a policy.Attributes, err error) {
					if a == nil || !errors.Is(err, down) && !errors.Is(err, later{}) && !errors.Is(err, forever{}) {
						t.Errorf("an error of %v: %v", a, err)
					}
				}
				front := newFront(t, c.options)
				if c.request == nil {
					c.request = client("192.0.2.1")
				}
				for range c.before {
					var held policy.Call
					front.Decide(t.Context(), c.request, &held)
					defer held.Settle(t.Context(), policy.Response{Status: 200})
				}
				var call policy.Call
				front.Decide(t.Context(), c.request, &call)
				wait, known := call.Retry()
				if known && wait != c.wait || known != c.known || call.Verdict != c.verdict || call.RPCCode() != c.code {
					t.Errorf("%v, code %d, retry %v %v; want %v, %d, %v %v", call.Verdict, call.RPCCode(), wait, known, c.verdict, c.code, c.wait, c.known)
				}
				pushback := ""
				if c.known {
					pushback = strconv.FormatInt(c.wait.Milliseconds(), 10)
				} else if c.wait == sluice.MaxRetryAfter {
					pushback = "-1"
				}
				if got := call.Pushback(); got != pushback {
					t.Errorf("pushback %q, want %q", got, pushback)
				}
				if got := strings.Join(call.Violated, " "); got != c.violated {
					t.Errorf("violated %q, want %q", got, c.violated)
				}
				if got := string(call.AppendDetail(nil)); got != c.detail {
					t.Errorf("says %q, want %q", got, c.detail)
				}
				if passes := c.code == 0; call.Passes() != passes {
					t.Errorf("passes %v", call.Passes())
				}
				if n := len(reported); n != c.before+1 || reported[n-1] != c.verdict {
					t.Errorf("reported %v", reported)
				}
				call.Settle(t.Context(), policy.Response{Status: 200})
				call.Settle(t.Context(), policy.Response{Status: 200})
			})
		})
	}
}

// forever is a store error with an excessive time to retry.
type forever struct{ later }

func (forever) RetryIn() time.Duration { return math.MaxInt64 }

// later is a store error with a time to retry.
type later struct{}

func (later) Error() string          { return "later" }
func (later) RetryIn() time.Duration { return time.Hour }

// TestFrontHoldsBack: requests are delayed in order, in a bounded queue, until they leave.
func TestFrontHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watched atomic.Int64
		bad := &policy.PartError{Part: policy.Func("the line", nil), Problem: "is broken"}
		type brokenKey struct{}
		front := newFront(t, policy.FrontOptions{
			Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerSecond(1))}, MaxWait: 10 * time.Second, Queue: policy.NewQueue(2),
			OnDelay: func(ctx context.Context, _ policy.Attributes) (context.Context, func()) {
				watched.Add(1)
				ctx, cancel := context.WithCancelCause(ctx)
				if ctx.Value(brokenKey{}) != nil {
					time.AfterFunc(100*time.Millisecond, func() { cancel(bad) })
				}
				return ctx, func() { watched.Add(-1); cancel(nil) }
			},
		})
		decide := func(ctx context.Context) *policy.Call {
			c := new(policy.Call)
			front.Decide(ctx, client("192.0.2.1"), c)
			return c
		}
		start := time.Now()
		check := func(what string, c *policy.Call, verdict policy.VerdictKind, after time.Duration) {
			t.Helper()
			if got := time.Since(start); c.Verdict != verdict || got != after {
				t.Errorf("%s: %v (%v) after %v, want %v after %v", what, c.Verdict, c.Err, got, verdict, after)
			}
		}
		check("the first", decide(t.Context()), policy.Allowed, 0)
		ctx, leave := context.WithCancel(t.Context())
		ends := make(chan *policy.Call)
		go func() { ends <- decide(ctx) }()
		go func() { ends <- decide(context.WithValue(t.Context(), brokenKey{}, true)) }()
		synctest.Wait()
		check("a third in a queue of two", decide(t.Context()), policy.FailedClosed, 0)
		leave()
		check("one who left", <-ends, policy.Abandoned, 0)
		check("one whose line broke", <-ends, policy.Refused, 100*time.Millisecond)
		time.Sleep(10 * time.Second)
		start = time.Now()
		check("later", decide(t.Context()), policy.Allowed, 0)
		if n := watched.Load(); n != 0 {
			t.Errorf("%d are still watched", n)
		}
	})
}

// TestFrontFaults: all faults are reported at once, including rules that do not fit.
func TestFrontFaults(t *testing.T) {
	shaping := policy.NewRule("slow", policy.IP(), sluice.Limit{Quota: 1 << 20, Window: time.Second, Unit: sluice.Bytes})
	shaping.Shape = true
	waiting := policy.NewRule("logins", policy.IP(), sluice.PerMinute(1))
	waiting.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	_, err := policy.NewFront(policy.FrontOptions{
		Name: "line", Rules: []policy.Rule{shaping, waiting}, NoBodies: true, NoResponses: true, MaxWait: -1, ClientHeader: "X-Real-IP",
	})
	for _, part := range []string{
		"line: Store is nil", `line: rule "slow" slows bodies down`, `line: rule "logins" waits for a response`,
		"line: MaxWait: -1ns must be", "line: client address: Header:",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v\ndoes not say %q", err, part)
		}
	}
}

// TestRPCStatus: the table of google.rpc.Code.
func TestRPCStatus(t *testing.T) {
	want := []int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401, 500, 500}
	for code, status := range want {
		if got := policy.RPCStatus(uint32(code)); got != status {
			t.Errorf("code %d: %d, want %d", code, got, status)
		}
	}
}
