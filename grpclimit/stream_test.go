// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// echo sends messages on a stream, one after another, and returns how many came back and the
// stream's error.
func echo(ctx context.Context, c testgrpc.TestServiceClient, sizes ...int) (came int, code codes.Code, trailer metadata.MD) {
	stream, err := c.FullDuplexCall(ctx)
	if err != nil {
		return 0, codeOf(err), nil
	}
	for _, size := range sizes {
		if err := stream.Send(chunk(size)); err != nil && !errors.Is(err, io.EOF) {
			return came, codeOf(err), nil
		}
		if _, err = stream.Recv(); err != nil {
			return came, codeOf(err), stream.Trailer()
		}
		came++
	}
	if err := stream.CloseSend(); err != nil {
		return came, codeOf(err), nil
	}
	for err == nil { // there is no trailer before the stream has ended
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return came, codeOf(err), stream.Trailer()
}

// TestStreams: a stream is charged when it opens, whatever its messages are.
func TestStreams(t *testing.T) {
	client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{rule(t, "api", policy.IP(), "2/min")}})
	for i, want := range []string{"3 OK", "0 OK", "0 ResourceExhausted"} {
		came, code, _ := echo(within(t), client, make([]int, 3*(1-min(i, 1)))...)
		if got := fmt.Sprint(came, " ", code); got != want {
			t.Errorf("stream %d: %s, want %s", i+1, got, want)
		}
	}
}

// TestMessages: a denied message ends its stream, in either direction, even if the handler
// ignores the error. The limit is the client's, not the stream's.
func TestMessages(t *testing.T) {
	deaf := &service{duplex: func(stream testgrpc.TestService_FullDuplexCallServer) error {
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				<-stream.Context().Done() // the denial ends it
				return nil                //nolint:nilerr // the result must not matter
			}
			if stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: m.GetPayload()}) != nil {
				return errors.New("another error")
			}
		}
	}}
	three := []policy.Rule{rule(t, "messages", policy.IP(), "3/min")}
	bytes := []policy.Rule{rule(t, "bytes", policy.IP(), "1000B/min")}
	for _, c := range []struct {
		name    string
		options grpclimit.Options
		sizes   []int
		came    int
	}{
		{"received", grpclimit.Options{Messages: three}, []int{1, 1, 1, 1}, 3},
		{"sent", grpclimit.Options{Replies: three}, []int{1, 1, 1, 1}, 3},
		{"bytes received", grpclimit.Options{Messages: bytes}, []int{900, 10, 900}, 2},
		{"bytes sent", grpclimit.Options{Replies: bytes}, []int{900, 10, 900}, 2},
	} {
		for _, of := range []*service{{}, deaf} {
			t.Run(c.name, func(t *testing.T) {
				o := c.options
				client, _ := start(t, of, o)
				came, code, trailer := echo(within(t), client, c.sizes...)
				if came != c.came || code != denied || len(trailer.Get("grpc-retry-pushback-ms")) != 1 {
					t.Errorf("%d came back, then %v, trailer %v", came, code, trailer)
				}
				if _, code, _ := echo(within(t), client, c.sizes[len(c.sizes)-1]); code != denied {
					t.Errorf("another stream of the client: %v", code)
				}
				want(t, "a unary call", []codes.Code{call(within(t), client, &testgrpc.SimpleRequest{})}, ok)
			})
		}
	}
}

// TestMessagesWait: a message waits until it fits, up to MaxWait.
func TestMessagesWait(t *testing.T) {
	client, _ := start(t, &service{}, grpclimit.Options{
		Store: memstore.New(memstore.Options{}), MaxWait: 10 * time.Second,
		Messages: []policy.Rule{rule(t, "messages", policy.IP(), "50/s burst 1")},
	})
	if came, code, _ := echo(within(t), client, make([]int, 10)...); came != 10 || code != ok {
		t.Errorf("%d came back, then %v", came, code)
	}
}

// TestBytesOfStreams: a rule for calls counts the bytes of a stream's messages.
func TestBytesOfStreams(t *testing.T) {
	for _, of := range []policy.Cost{{Of: policy.RequestBytes}, {Of: policy.ResponseBytes}} {
		r := rule(t, "bytes", policy.IP(), "1000B/min debt 5000")
		r.Cost = of
		client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{r}})
		if came, code, _ := echo(within(t), client, 1000, 1000); came != 2 || code != ok {
			t.Fatalf("%v: %d came back, then %v", of, came, code)
		}
		if _, code, _ := echo(within(t), client); code != denied {
			t.Errorf("%v: after twice the quota: %v", of, code)
		}
	}
}

// TestFailedLogIns: six log-ins, of which three a minute may fail, by the handler's status,
// even if the client leaves before it.
func TestFailedLogIns(t *testing.T) {
	logins := func(t *testing.T) []policy.Rule {
		r := rule(t, "logins", policy.IP(), "3/min")
		r.When = &policy.When{Status: grpclimit.Statuses(codes.Unauthenticated, codes.DeadlineExceeded)}
		return []policy.Rule{r}
	}
	ends := func(err error) *service {
		return &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			return nil, err
		}, duplex: func(testgrpc.TestService_FullDuplexCallServer) error { return err }}
	}
	const failed = codes.Unauthenticated
	for _, c := range []struct {
		name string
		of   *service
		req  *testgrpc.SimpleRequest
		want []codes.Code
	}{
		{"fail", &service{}, ending(failed), []codes.Code{failed, failed, failed, denied, denied, denied}},
		{"succeed", &service{}, &testgrpc.SimpleRequest{}, []codes.Code{ok, ok, ok, ok, ok, ok}},
		{"fail otherwise", &service{}, ending(codes.NotFound), []codes.Code{codes.NotFound, codes.NotFound, codes.NotFound, codes.NotFound, codes.NotFound, codes.NotFound}},
		{"end with an error of a context", ends(context.DeadlineExceeded), &testgrpc.SimpleRequest{}, []codes.Code{codes.DeadlineExceeded, codes.DeadlineExceeded, codes.DeadlineExceeded, denied, denied, denied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := start(t, c.of, grpclimit.Options{Rules: logins(t)})
			want(t, "calls", times(6, func() codes.Code { return call(within(t), client, c.req) }), c.want...)
		})
	}
	t.Run("streams fail", func(t *testing.T) {
		client, _ := start(t, ends(context.DeadlineExceeded), grpclimit.Options{Rules: logins(t)})
		const late = codes.DeadlineExceeded
		want(t, "streams", times(6, func() codes.Code { _, code, _ := echo(within(t), client); return code }), late, late, late, denied, denied, denied)
	})
	t.Run("clients leave", func(t *testing.T) {
		running, done := make(chan struct{}), make(chan struct{})
		client, _ := start(t, &service{unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			running <- struct{}{}
			<-ctx.Done()
			done <- struct{}{}
			return &testgrpc.SimpleResponse{}, nil // as if it had succeeded
		}}, grpclimit.Options{Rules: logins(t), OnDecision: func(_ grpclimit.Call, e evaluate.Event) {
			if e.Verdict == evaluate.Denied {
				running <- struct{}{}
				done <- struct{}{}
			}
		}})
		for range 3 {
			ctx, leave := context.WithCancel(within(t))
			go func() { <-running; leave() }()
			want(t, "a call that is left", []codes.Code{call(ctx, client, ending(failed))}, codes.Canceled)
			<-done
		}
		// The last one is settled shortly after its handler has returned. An earlier call
		// passes, and its client leaves, too.
		ctx := within(t)
		for code := ok; code != denied; {
			if ctx.Err() != nil {
				t.Fatal("calls that were left did not count")
			}
			once, leave := context.WithCancel(ctx)
			go func() { <-running; leave(); <-done }()
			code = call(once, client, ending(failed))
		}
	})
}
