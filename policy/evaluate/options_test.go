// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

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
	"github.com/sluicegate/sluice/policy/evaluate"
)

// client is a request of a client.
func client(addr string) policy.Attributes {
	return (&policy.Request{Method: "POST", Path: "/x", Client: netip.MustParseAddr(addr)}).Attributes()
}

func newEvaluator(t *testing.T, o evaluate.Options) *evaluate.Evaluator {
	t.Helper()
	if o.Store == nil {
		o.Store = memstore.New(memstore.Options{})
	}
	f, err := evaluate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEvaluatorAnswers: the answers of an evaluator by kind of verdict.
func TestEvaluatorAnswers(t *testing.T) {
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
	expired := (&policy.Request{Client: netip.MustParseAddr("192.0.2.1"), Token: &policy.TokenError{Problem: "the token has expired"}}).Attributes()
	for _, c := range []struct {
		name     string
		rule     policy.Rule
		options  evaluate.Options
		request  policy.Attributes
		before   int // requests that pass
		verdict  evaluate.VerdictKind
		code     uint32
		wait     time.Duration
		known    bool
		violated string
		detail   string
	}{
		{"allowed", plain, evaluate.Options{}, nil, 0, evaluate.Allowed, 0, 0, false, "", ""},
		{"denied", plain, evaluate.Options{}, nil, 1, evaluate.Denied, 8, time.Minute, true, "api", `the quota of the limit "api" is used up; retry after 60 s`},
		{"never fits", never, evaluate.Options{}, nil, 0, evaluate.Denied, 8, sluice.MaxRetryAfter, false, "api", `this request costs 2 requests, which is more than the limit "api" can ever allow; send a smaller one`},
		{"in flight", full, evaluate.Options{}, nil, 1, evaluate.Denied, 8, 0, false, "full/one", `as many requests as the limit "full/one" allows are in flight; retry when one has ended`},
		{"no key", key, evaluate.Options{}, nil, 0, evaluate.Refused, 3, 0, false, "", "header User is missing"},
		{"no token", token, evaluate.Options{}, expired, 0, evaluate.Refused, 16, 0, false, "", "the token has expired"},
		{"not let in", plain, evaluate.Options{Deny: network}, nil, 0, evaluate.Refused, 7, 0, false, "", "requests from this network are not allowed"},
		{"closed", closed, evaluate.Options{Store: testkit.Failing(down)}, nil, 0, evaluate.FailedClosed, 14, time.Second, true, "", "the rate limit could not be checked; retry later"},
		{"closed, and the store knows for how long", closed, evaluate.Options{Store: testkit.Failing(later{})}, nil, 0, evaluate.FailedClosed, 14, time.Hour, true, "", "the rate limit could not be checked; retry later"},
		{"closed for ever", closed, evaluate.Options{Store: testkit.Failing(forever{})}, nil, 0, evaluate.FailedClosed, 14, sluice.MaxWindow, true, "", "the rate limit could not be checked; retry later"},
		{"open", plain, evaluate.Options{Store: testkit.Failing(down)}, nil, 0, evaluate.FailedOpen, 0, 0, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []evaluate.VerdictKind
				c.options.Rules = []policy.Rule{c.rule}
				c.options.OnDecision = func(_ context.Context, _ policy.Attributes, e *evaluate.Event) {
					reported = append(reported, e.Verdict)
				}
				c.options.OnError = func(_ context.Context, a policy.Attributes, err error) {
					if a == nil || !errors.Is(err, down) && !errors.Is(err, later{}) && !errors.Is(err, forever{}) {
						t.Errorf("an error of %v: %v", a, err)
					}
				}
				evaluator := newEvaluator(t, c.options)
				if c.request == nil {
					c.request = client("192.0.2.1")
				}
				for range c.before {
					var held evaluate.Call
					evaluator.Decide(t.Context(), c.request, &held)
					defer held.Settle(t.Context(), policy.Response{Status: 200})
				}
				var call evaluate.Call
				evaluator.Decide(t.Context(), c.request, &call)
				wait, known := call.Retry()
				code, told := call.RPC()
				if known && wait != c.wait || known != c.known || call.Verdict != c.verdict || code != c.code {
					t.Errorf("%v, code %d, retry %v %v; want %v, %d, %v %v", call.Verdict, code, wait, known, c.verdict, c.code, c.wait, c.known)
				}
				pushback := ""
				if c.known {
					pushback = strconv.FormatInt(c.wait.Milliseconds(), 10)
				} else if c.wait == sluice.MaxRetryAfter {
					pushback = "-1"
				}
				if told != pushback {
					t.Errorf("pushback %q, want %q", told, pushback)
				}
				if got := strings.Join(call.Violated, " "); got != c.violated {
					t.Errorf("violated %q, want %q", got, c.violated)
				}
				if got := string(call.AppendDetail(nil)); got != c.detail {
					t.Errorf("says %q, want %q", got, c.detail)
				}
				if passes := c.code == 0; call.Verdict.Passes() != passes {
					t.Errorf("passes %v", call.Verdict.Passes())
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

// TestEvaluatorHoldsBack: requests are delayed in order, in a bounded queue, until they leave.
func TestEvaluatorHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watched atomic.Int64
		bad := &policy.PartError{Part: policy.Func("the line", nil), Problem: "is broken"}
		type brokenKey struct{}
		evaluator := newEvaluator(t, evaluate.Options{
			Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerSecond(1))}, MaxWait: 10 * time.Second, Queue: evaluate.NewQueue(2),
			OnDelay: func(ctx context.Context, _ policy.Attributes) (context.Context, func()) {
				watched.Add(1)
				ctx, cancel := context.WithCancelCause(ctx)
				if ctx.Value(brokenKey{}) != nil {
					time.AfterFunc(100*time.Millisecond, func() { cancel(bad) })
				}
				return ctx, func() { watched.Add(-1); cancel(nil) }
			},
		})
		decide := func(ctx context.Context) *evaluate.Call {
			c := new(evaluate.Call)
			evaluator.Decide(ctx, client("192.0.2.1"), c)
			return c
		}
		start := time.Now()
		check := func(what string, c *evaluate.Call, verdict evaluate.VerdictKind, after time.Duration) {
			t.Helper()
			if got := time.Since(start); c.Verdict != verdict || got != after {
				t.Errorf("%s: %v (%v) after %v, want %v after %v", what, c.Verdict, c.Err, got, verdict, after)
			}
		}
		check("the first", decide(t.Context()), evaluate.Allowed, 0)
		ctx, leave := context.WithCancel(t.Context())
		ends := make(chan *evaluate.Call)
		go func() { ends <- decide(ctx) }()
		go func() { ends <- decide(context.WithValue(t.Context(), brokenKey{}, true)) }()
		synctest.Wait()
		check("a third in a queue of two", decide(t.Context()), evaluate.FailedClosed, 0)
		leave()
		check("one who left", <-ends, evaluate.Abandoned, 0)
		check("one whose line broke", <-ends, evaluate.Refused, 100*time.Millisecond)
		time.Sleep(10 * time.Second)
		start = time.Now()
		check("later", decide(t.Context()), evaluate.Allowed, 0)
		if n := watched.Load(); n != 0 {
			t.Errorf("%d are still watched", n)
		}
	})
}

// TestEvaluatorFaults: all faults are reported at once, including rules that do not fit.
func TestEvaluatorFaults(t *testing.T) {
	shaping := policy.NewRule("slow", policy.IP(), sluice.Limit{Quota: 1 << 20, Window: time.Second, Unit: sluice.Bytes})
	shaping.Shape = true
	waiting := policy.NewRule("logins", policy.IP(), sluice.PerMinute(1))
	waiting.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	_, err := evaluate.New(evaluate.Options{
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
		if got := evaluate.RPCStatus(uint32(code)); got != status {
			t.Errorf("code %d: %d, want %d", code, got, status)
		}
	}
}
