// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// recovering turns a handler's panic into a status.
func recovering() grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Error(codes.Internal, fmt.Sprint(p))
			}
		}()
		return handler(ctx, req)
	})
}

// TestSizeThatPanics: a Size that panics leaves no slot held.
func TestSizeThatPanics(t *testing.T) {
	client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{two()}, Size: func(m any) int {
		if m.(*testgrpc.SimpleRequest).GetFillUsername() {
			panic("as asked")
		}
		return 1
	}}, recovering())
	bad := func() codes.Code {
		return call(within(t), client, &testgrpc.SimpleRequest{FillUsername: true})
	}
	want(t, "calls whose size panics", times(4, bad), codes.Internal, codes.Internal, codes.Internal, codes.Internal)
}

// TestBothWaysDenied: if messages of both directions are denied, the client gets the pushback of
// the first: with two it would never retry.
func TestBothWaysDenied(t *testing.T) {
	queue, never := evaluate.NewQueue(10), rule(t, "messages", policy.IP(), "1/min")
	never.Cost.Units = 2
	client, _ := start(t, &service{duplex: func(stream testgrpc.TestService_FullDuplexCallServer) error {
		sent := make(chan error)
		go func() {
			for range 2 {
				if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for queue.Stats().Held == 0 {
			runtime.Gosched()
		}
		_, err := stream.Recv()
		if code := codeOf(<-sent); code != codes.Canceled {
			t.Errorf("the reply that was delayed: %v", code)
		}
		return err
	}}, grpclimit.Options{
		Store: memstore.New(memstore.Options{}), MaxWait: time.Hour, Queue: queue,
		Messages: []policy.Rule{never}, Replies: []policy.Rule{rule(t, "replies", policy.IP(), "6/min burst 1")},
	})
	_, code, trailer := echo(within(t), client, 1, 1)
	if got := trailer.Get("grpc-retry-pushback-ms"); code != denied || len(got) != 1 || got[0] != "-1" {
		t.Errorf("%v, pushback %v; want %v, [-1]", code, got, denied)
	}
}

// TestBytesOfDenied: the bytes of a denied reply do not count, but those of a denied message
// do.
func TestBytesOfDenied(t *testing.T) {
	one := []policy.Rule{rule(t, "one", policy.IP(), "1/min")}
	for _, c := range []struct {
		of                policy.CostOf
		messages, replies []policy.Rule
		want              codes.Code
	}{{policy.ResponseBytes, nil, one, ok}, {policy.RequestBytes, one, nil, denied}} {
		calls := rule(t, "bytes", policy.IP(), "1000B/min debt 5000")
		calls.Cost.Of = c.of
		client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{calls}, Messages: c.messages, Replies: c.replies})
		if came, code, _ := echo(within(t), client, 10, 2000); came != 1 || code != denied {
			t.Fatalf("%d came back, then %v", came, code)
		}
		want(t, "the next call", []codes.Code{call(within(t), client, &testgrpc.SimpleRequest{})}, c.want)
	}
}

// TestDenyWithoutCalls: a client is not admitted even if only messages have rules.
func TestDenyWithoutCalls(t *testing.T) {
	var reported atomic.Int64
	client, _ := start(t, &service{}, grpclimit.Options{
		Messages: []policy.Rule{rule(t, "messages", policy.IP(), "1/min")},
		Deny:     []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		OnDecision: func(_ grpclimit.Call, e evaluate.Event) {
			if e.Verdict == evaluate.Refused {
				reported.Add(1)
			}
		},
	})
	want(t, "a unary call", []codes.Code{call(within(t), client, &testgrpc.SimpleRequest{})}, codes.PermissionDenied)
	_, code, _ := echo(within(t), client)
	want(t, "a stream of no messages", []codes.Code{code}, codes.PermissionDenied)
	if n := reported.Load(); n != 2 {
		t.Errorf("notified of %d", n)
	}
}

// TestPanicsCount: a handler that panics has failed, and counts under a rule for failures, in
// unary calls and in streams.
func TestPanicsCount(t *testing.T) {
	r := rule(t, "failures", policy.IP(), "2/min")
	r.When = &policy.When{Status: grpclimit.Statuses(codes.Internal)}
	var left, running atomic.Int64
	client, _ := start(t, endsAsAsked(&left, &running), grpclimit.Options{Rules: []policy.Rule{r}}, recovering(), grpc.ChainStreamInterceptor(recoverStream))
	ctx := as(within(t), "how", "panic")
	want(t, "a unary call", []codes.Code{call(ctx, client, &testgrpc.SimpleRequest{})}, codes.Internal)
	_, code, _ := echo(ctx, client, 1)
	want(t, "a stream", []codes.Code{code}, codes.Internal)
	want(t, "a third", []codes.Code{call(ctx, client, &testgrpc.SimpleRequest{})}, denied)
}

// TestRetryIsExact: RetryInfo has the exact time, and a pushback, in milliseconds, is never
// before it.
func TestRetryIsExact(t *testing.T) {
	const window = 1_000_500 * time.Microsecond
	client, _ := start(t, &service{}, grpclimit.Options{
		Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.Limit{Quota: 1, Window: window})},
	})
	ctx := within(t)
	want(t, "first", []codes.Code{call(ctx, client, &testgrpc.SimpleRequest{})}, ok)
	var trailer metadata.MD
	_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
	retry, _ := detailsOf(err)
	if got := trailer.Get("grpc-retry-pushback-ms"); retry.GetRetryDelay().AsDuration() != window || len(got) != 1 || got[0] != "1001" {
		t.Errorf("RetryInfo %v, pushback %v; want %v and 1001", retry, got, window)
	}
}

// TestRefusalsSayNothing: a call that is refused, but not by a limit, gets no QuotaFailure,
// and no time to retry unless a retry helps.
func TestRefusalsSayNothing(t *testing.T) {
	closed := rule(t, "api", policy.IP(), "1/min")
	closed.Failure = sluice.FailClosed
	for code, o := range map[codes.Code]grpclimit.Options{
		codes.PermissionDenied: {Rules: []policy.Rule{closed}, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		codes.InvalidArgument:  {Rules: []policy.Rule{rule(t, "api", policy.Header("X-User"), "1/min")}},
		codes.Unavailable:      {Rules: []policy.Rule{closed}, Store: testkit.Failing(io.ErrUnexpectedEOF), OnError: func(grpclimit.Call, error) {}},
	} {
		client, _ := start(t, &service{}, o)
		var trailer metadata.MD
		_, err := client.UnaryCall(within(t), &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
		retry, quota := detailsOf(err)
		comes := code == codes.Unavailable
		if codeOf(err) != code || quota != nil || (retry != nil) != comes || (len(trailer.Get("grpc-retry-pushback-ms")) > 0) != comes {
			t.Errorf("%v: %v, RetryInfo %v, QuotaFailure %v, trailer %v", code, err, retry, quota, trailer)
		}
	}
}

// TestHandlerIgnoresDenial: after a denied message the handler neither receives later messages
// nor sends, even if they would fit.
func TestHandlerIgnoresDenial(t *testing.T) {
	got, sent := make(chan codes.Code, 4), make(chan struct{})
	client, _ := start(t, &service{duplex: func(stream testgrpc.TestService_FullDuplexCallServer) error {
		<-sent
		for range 3 {
			_, err := stream.Recv()
			got <- codeOf(err)
		}
		got <- codeOf(stream.Send(&testgrpc.StreamingOutputCallResponse{}))
		return nil
	}}, grpclimit.Options{Messages: []policy.Rule{rule(t, "bytes", policy.IP(), "1000B/min")}})
	stream, err := client.FullDuplexCall(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{900, 900, 10} {
		if err := stream.Send(chunk(size)); err != nil {
			t.Fatal(err)
		}
	}
	close(sent)
	want(t, "the handler", times(4, func() codes.Code { return <-got }), ok, denied, denied, denied)
	if _, err := stream.Recv(); codeOf(err) != denied {
		t.Errorf("the client: %v", err)
	}
}
