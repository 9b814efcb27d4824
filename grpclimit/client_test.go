// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice/grpclimit"
)

// clientScript gives the n-th call the n-th answer, and admits later calls. It records when
// calls came.
type clientScript struct {
	clientServer
	start time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func newClientScript(answers ...clientAnswer) *clientScript {
	s := &clientScript{start: time.Now()}
	s.answer = func(n int64) (metadata.MD, metadata.MD, error) {
		s.mu.Lock()
		s.at = append(s.at, time.Since(s.start))
		s.mu.Unlock()
		if n <= int64(len(answers)) {
			return answers[n-1](n)
		}
		return nil, nil, nil
	}
	return s
}

// clientSays is an answer with an error and pairs of the trailer.
func clientSays(err error, trailer ...string) clientAnswer {
	return func(int64) (metadata.MD, metadata.MD, error) { return nil, metadata.Pairs(trailer...), err }
}

// clientStates is an answer that admits, with pairs of the header.
func clientStates(header ...string) clientAnswer {
	return func(int64) (metadata.MD, metadata.MD, error) { return metadata.Pairs(header...), nil, nil }
}

func TestClientRetries(t *testing.T) {
	exhausted := status.Error(codes.ResourceExhausted, "denied")
	unavailable := status.Error(codes.Unavailable, "denied")
	denial := clientSays(clientDenial(codes.ResourceExhausted, 8*time.Second), "grpc-retry-pushback-ms", "8000")
	info := func(d *durationpb.Duration) error {
		return clientDetailed(codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: d})
	}
	broken, err := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	broken.Value = append(broken.Value, 0xff)
	for _, c := range []struct {
		name     string
		answers  []clientAnswer
		opts     grpclimit.ClientOptions
		want     codes.Code
		attempts int           // seen by the server
		from, to time.Duration // when the second is sent
	}{
		{name: "both", answers: []clientAnswer{denial}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "RetryInfo", answers: []clientAnswer{clientSays(clientDenial(codes.ResourceExhausted, 8*time.Second))}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "RetryInfo is the most exact", answers: []clientAnswer{clientSays(clientDenial(codes.ResourceExhausted, 800*time.Microsecond), "grpc-retry-pushback-ms", "8000")}, attempts: 2, from: 800 * time.Microsecond, to: time.Second},
		{name: "pushback", answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "8000")}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "the longest pushback", opts: grpclimit.ClientOptions{MaxWait: time.Hour, MaxRetryAfter: time.Minute}, answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "9223372036854775807")}, attempts: 2, from: time.Minute, to: 68 * time.Second},
		{name: "pushback of 0", answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "0")}, attempts: 2, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
		{name: "several retry-after, the longest", answers: []clientAnswer{clientSays(exhausted, "retry-after", "1", "retry-after", "8", "retry-after", "x")}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "retry-after", answers: []clientAnswer{clientSays(exhausted, "retry-after", "8")}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "unavailable", answers: []clientAnswer{clientSays(clientDenial(codes.Unavailable, 8*time.Second))}, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "count spent", answers: []clientAnswer{denial, denial, denial, denial, denial}, want: codes.ResourceExhausted, attempts: 4, from: 8 * time.Second, to: 9 * time.Second},
		{name: "never", opts: grpclimit.ClientOptions{MaxRetries: -1}, answers: []clientAnswer{denial}, want: codes.ResourceExhausted, attempts: 1},
		{name: "too long", opts: grpclimit.ClientOptions{MaxWait: 7 * time.Second}, answers: []clientAnswer{denial}, want: codes.ResourceExhausted, attempts: 1},
		{name: "longer than MaxRetryAfter", opts: grpclimit.ClientOptions{MaxWait: time.Hour, MaxRetryAfter: time.Minute}, answers: []clientAnswer{clientSays(clientDenial(codes.ResourceExhausted, time.Hour))}, attempts: 2, from: time.Minute, to: 68 * time.Second},
		{name: "no word", answers: []clientAnswer{clientSays(exhausted)}, want: codes.ResourceExhausted, attempts: 1},
		{name: "unavailable without a word", answers: []clientAnswer{clientSays(unavailable)}, want: codes.Unavailable, attempts: 1},
		{name: "forbidden", answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "-1")}, want: codes.ResourceExhausted, attempts: 1},
		{name: "forbidden in spite of RetryInfo", answers: []clientAnswer{clientSays(clientDenial(codes.ResourceExhausted, time.Second), "grpc-retry-pushback-ms", "-1")}, want: codes.ResourceExhausted, attempts: 1},
		{name: "pushback is no number", answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "NaN")}, want: codes.ResourceExhausted, attempts: 1},
		{name: "two pushbacks", answers: []clientAnswer{clientSays(exhausted, "grpc-retry-pushback-ms", "1", "grpc-retry-pushback-ms", "1")}, want: codes.ResourceExhausted, attempts: 1},
		{name: "RetryInfo without a delay", answers: []clientAnswer{clientSays(info(nil))}, want: codes.ResourceExhausted, attempts: 1},
		{name: "a negative delay", answers: []clientAnswer{clientSays(info(durationpb.New(-time.Second)))}, want: codes.ResourceExhausted, attempts: 1},
		{name: "a broken RetryInfo", answers: []clientAnswer{clientSays(status.FromProto(&spb.Status{Code: int32(codes.ResourceExhausted), Details: []*anypb.Any{broken}}).Err())}, want: codes.ResourceExhausted, attempts: 1},
		{name: "other failures are not ours", answers: []clientAnswer{clientSays(clientDenial(codes.Aborted, time.Second), "grpc-retry-pushback-ms", "1")}, want: codes.Aborted, attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientScript(c.answers...)
				conn := clientServe(t, &s.clientServer, c.opts, true)
				err := clientCall(t.Context(), conn)
				if got := status.Code(err); got != c.want {
					t.Errorf("got %v; want %v", err, c.want)
				}
				if _, held := errors.AsType[*grpclimit.WaitError](err); held {
					t.Errorf("got %v; want the server's own status", err)
				}
				if _, _, sent := c.answers[0](1); c.want != codes.OK && len(status.Convert(err).Details()) != len(status.Convert(sent).Details()) {
					t.Errorf("got the details %v; want the server's", status.Convert(err).Details())
				}
				if len(s.at) != c.attempts {
					t.Fatalf("got %d attempts; want %d", len(s.at), c.attempts)
				}
				if c.attempts > 1 && (s.at[1] < c.from || s.at[1] > c.to) {
					t.Errorf("the second attempt came after %v; want %v to %v", s.at[1], c.from, c.to)
				}
				// An error that is no denial delays nothing.
				if c.attempts == 1 && c.want != codes.OK && c.opts.MaxRetries == 0 && c.opts.MaxWait == 0 {
					before := time.Now()
					if err := clientCall(t.Context(), conn); err != nil || !time.Now().Equal(before) {
						t.Errorf("the next call: got %v after %v; want it let in at once", err, time.Since(before))
					}
				}
			})
		})
	}
}

// TestClientHolds: a call that would wait too long fails at once, and one that gives up delays
// no other call.
func TestClientHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientStates("ratelimit", `"a";r=0;t=90`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		if err := clientCall(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		err := clientCall(t.Context(), conn)
		hold, ok := errors.AsType[*grpclimit.WaitError](err)
		if !ok || hold.Target != conn.Target() || hold.Wait != 90*time.Second || errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v; want a WaitError of 90s for MaxWait", err)
		}
		time.Sleep(40 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 49*time.Second)
		defer cancel()
		err = clientCall(ctx, conn)
		if _, ok := errors.AsType[*grpclimit.WaitError](err); !ok || !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v; want a WaitError for the deadline", err)
		}
		if got := time.Since(s.start); got != 40*time.Second {
			t.Errorf("the refusals took until %v; want 40s: no wait that is in vain", got)
		}
		ctx, hangUp := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := clientCall(ctx, conn); status.Code(err) != codes.Canceled {
				t.Errorf("got %v; want %v", err, codes.Canceled)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := clientCall(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		hangUp(errors.New("a cause is not a status"))
		wg.Wait()
		if len(s.at) != 2 || s.at[1] != 90*time.Second {
			t.Errorf("got calls at %v; want the second at 90s", s.at)
		}
	})
}

// TestClientHangsUpBetweenAttempts: the end of the context ends the wait for the
// next attempt.
func TestClientHangsUpBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientSays(clientDenial(codes.ResourceExhausted, 30*time.Second)))
		ctx, hangUp := context.WithCancel(t.Context())
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{
			OnWait: func(_ context.Context, method string, wait time.Duration) {
				if method != testgrpc.TestService_EmptyCall_FullMethodName || wait < 30*time.Second {
					t.Errorf("got %s, %v", method, wait)
				}
				time.AfterFunc(time.Second, hangUp)
			},
		}, true)
		if err := clientCall(ctx, conn); status.Code(err) != codes.Canceled || time.Since(s.start) != time.Second {
			t.Errorf("got %v after %v; want %v after 1s", err, time.Since(s.start), codes.Canceled)
		}
	})
}

// TestClientKeepsTargetsApart: no call waits for the limit of another target or partition, and
// the limits of a target can be forgotten.
func TestClientKeepsTargetsApart(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript()
		s.answer = func(int64) (metadata.MD, metadata.MD, error) {
			return metadata.Pairs("ratelimit", `"a";r=0;t=30`), nil, nil
		}
		c, err := grpclimit.NewClient(grpclimit.ClientOptions{
			Partition: func(ctx context.Context, _ string) string { return fmt.Sprint(ctx.Value(key{})) },
		})
		if err != nil {
			t.Fatal(err)
		}
		a := clientDial(t, &s.clientServer, true, grpc.WithUnaryInterceptor(c.Unary()))
		for _, whose := range []string{"1", "2"} {
			if err := clientCall(context.WithValue(t.Context(), key{}, whose), a); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(s.start); took != 0 {
			t.Errorf("took %v; want 0: each has a budget of its own", took)
		}
		call := func(whose string, want time.Duration) {
			t.Helper()
			if err := clientCall(context.WithValue(t.Context(), key{}, whose), a); err != nil || time.Since(s.start) != want {
				t.Errorf("got %v after %v; want no error after %v", err, time.Since(s.start), want)
			}
		}
		other := clientDial(t, &s.clientServer, true, grpc.WithUnaryInterceptor(c.Unary()))
		if err := clientCall(t.Context(), other); err != nil || time.Since(s.start) != 0 {
			t.Errorf("another target: got %v after %v; want no error at once", err, time.Since(s.start))
		}
		call("1", 30*time.Second)
		c.Forget("other.test")
		call("1", time.Minute)
		c.Forget(a.Target())
		call("1", time.Minute)
		call("2", time.Minute)
	})
}

// TestClientKeepsLimitsOfDenials: answers without limits do not end those that a denial has
// stated, even after the stated time.
func TestClientKeepsLimitsOfDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientSays(clientDenial(codes.ResourceExhausted, time.Second), "ratelimit-policy", `"a";q=1;w=10`, "ratelimit", `"a";r=0;t=1`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{MaxRetries: -1}, true)
		for i := range 3 {
			if err := clientCall(t.Context(), conn); (err == nil) != (i > 0) {
				t.Fatal(err)
			}
		}
		s.latency = 6 * time.Second
		if err := clientCall(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		s.latency = 0
		for range 2 {
			if err := clientCall(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fmt.Sprint(s.at), "[0s 10s 20s 36s 42s 52s]"; got != want {
			t.Errorf("got calls at %s; want %s", got, want)
		}
	})
}

// TestClientProbesSlowly: while the next time is not known, one call a second goes to a server
// that answers late, and once it has answered all go.
func TestClientProbesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientStates("ratelimit", `"a";r=0;t=10`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		if err := clientCall(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		s.work = 2500 * time.Millisecond
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if err := clientCall(t.Context(), conn); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got, want := fmt.Sprint(s.at), "[0s 10s 11s 12s 12.5s 12.5s 12.5s]"; got != want {
			t.Errorf("got calls at %s; want %s", got, want)
		}
	})
}

// TestClientHearsFailures: an answer with another error states limits, too.
func TestClientHearsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientSays(status.Error(codes.NotFound, "no such thing"), "ratelimit", `"a";r=0;t=10`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		if err := clientCall(t.Context(), conn); status.Code(err) != codes.NotFound {
			t.Errorf("got %v; want %v", err, codes.NotFound)
		}
		if err := clientCall(t.Context(), conn); err != nil || s.at[1] != 10*time.Second {
			t.Errorf("got %v, at %v; want it let in at 10s", err, s.at)
		}
	})
}

// TestClientReturnsTheServersStatus: a denied call that cannot be sent again in time returns the
// server's status.
func TestClientReturnsTheServersStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := clientSays(clientDenial(codes.ResourceExhausted, 8*time.Second))
		long := clientSays(clientDenial(codes.ResourceExhausted, 55*time.Second))
		s := newClientScript(short, short, long)
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := clientCall(t.Context(), conn)
				if _, held := errors.AsType[*grpclimit.WaitError](err); held || status.Code(err) != codes.ResourceExhausted {
					t.Errorf("got %v; want the server's denial", err)
				}
			})
		}
		wg.Wait()
		if len(s.at) != 3 {
			t.Errorf("got calls at %v; want three", s.at)
		}
	})
}

// TestClientLeavesOptionsAlone: callers may share a slice of options with spare capacity.
func TestClientLeavesOptionsAlone(t *testing.T) {
	conn := clientServe(t, &clientServer{answer: clientStates()}, grpclimit.ClientOptions{}, false)
	opts := make([]grpc.CallOption, 0, 4)
	if err := conn.Invoke(t.Context(), testgrpc.TestService_EmptyCall_FullMethodName, &testgrpc.Empty{}, &testgrpc.Empty{}, opts...); err != nil {
		t.Fatal(err)
	}
	for i, o := range opts[:cap(opts)] {
		if o != nil {
			t.Errorf("option %d was written over with %T", i, o)
		}
	}
}

func TestNewClientRefuses(t *testing.T) {
	_, err := grpclimit.NewClient(grpclimit.ClientOptions{MaxWait: -1, MaxRetryAfter: -1, MaxBudgets: -1})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"grpclimit: MaxWait: -1ns", "grpclimit: MaxRetryAfter: -1ns", "grpclimit: MaxBudgets: -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q; want it to say %q", err, want)
		}
	}
}
