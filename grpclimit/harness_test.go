// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // handlers may ask for it
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// service answers as requested: a unary call with the requested size and status, and a stream
// with an echo.
type service struct {
	testgrpc.UnimplementedTestServiceServer

	unary  func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	duplex func(testgrpc.TestService_FullDuplexCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, req *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.unary != nil {
		return s.unary(ctx, req)
	}
	if st := req.GetResponseStatus(); st != nil {
		return nil, status.Error(codes.Code(st.GetCode()), st.GetMessage())
	}
	return &testgrpc.SimpleResponse{Payload: payload(int(req.GetResponseSize()))}, nil
}

func (s *service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

func (s *service) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
			return err
		}
	}
}

func payload(n int) *testgrpc.Payload { return &testgrpc.Payload{Body: make([]byte, n)} }

// chunk is a message of a stream.
func chunk(n int) *testgrpc.StreamingOutputCallRequest {
	return &testgrpc.StreamingOutputCallRequest{Payload: payload(n)}
}

// start starts a server of s under o, and returns a client of it and a function that dials it.
func start(t *testing.T, s *service, o grpclimit.Options, with ...grpc.ServerOption) (testgrpc.TestServiceClient, func(...grpc.DialOption) testgrpc.TestServiceClient) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := serve(t, listener, listener.Addr().String(), s, o, with...)
	return dial(), dial
}

// startInMemory is start within a bubble of testing/synctest.
func startInMemory(t *testing.T, s *service, o grpclimit.Options, options ...grpc.DialOption) testgrpc.TestServiceClient {
	t.Helper()
	pipes := testkit.NewPipes()
	dial := serve(t, pipes, "passthrough:///pipes", s, o)
	return dial(append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return pipes.Dial(ctx, "tcp", address)
	}))...)
}

// serve serves s under o on a listener until the test ends, and returns a function that dials target.
func serve(t *testing.T, listener net.Listener, target string, s *service, o grpclimit.Options, with ...grpc.ServerOption) func(...grpc.DialOption) testgrpc.TestServiceClient {
	t.Helper()
	if o.Store == nil {
		o.Store = newStore(t)
	}
	lim, err := grpclimit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(append(with, lim.ServerOptions()...)...)
	testgrpc.RegisterTestServiceServer(srv, s)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(options ...grpc.DialOption) testgrpc.TestServiceClient {
		conn, err := grpc.NewClient(target, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		return testgrpc.NewTestServiceClient(conn)
	}
}

// newStore returns a store in which no unit is refilled during a test.
func newStore(t *testing.T) *memstore.Store {
	t.Helper()
	now := time.Now()
	return memstore.New(memstore.Options{Now: func() time.Time { return now }})
}

func rule(t *testing.T, name string, key policy.Part, limits ...string) policy.Rule {
	t.Helper()
	var all []sluice.Limit
	for _, text := range limits {
		l, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return policy.NewRule(name, key, all...)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	t.Cleanup(cancel)
	return ctx
}

// as returns a context whose calls carry metadata, by pairs.
func as(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// call makes a unary call and returns its code.
func call(ctx context.Context, c testgrpc.TestServiceClient, req *testgrpc.SimpleRequest) codes.Code {
	_, err := c.UnaryCall(ctx, req)
	return status.Code(err)
}

// ending is the request of a call that ends with a code.
func ending(code codes.Code) *testgrpc.SimpleRequest {
	return &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(code), Message: "as asked"}}
}

// detailsOf returns the details of an error.
func detailsOf(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// want checks the codes of calls made one after another.
func want(t *testing.T, what string, got []codes.Code, wanted ...codes.Code) {
	t.Helper()
	if len(got) != len(wanted) {
		t.Fatalf("%s: got %v, want %v", what, got, wanted)
	}
	for i := range got {
		if got[i] != wanted[i] {
			t.Fatalf("%s: got %v, want %v", what, got, wanted)
		}
	}
}

// times makes n calls and returns their codes.
func times(n int, f func() codes.Code) (all []codes.Code) {
	for range n {
		all = append(all, f())
	}
	return all
}

const (
	ok     = codes.OK
	denied = codes.ResourceExhausted
)

func codeOf(err error) codes.Code { return status.Code(err) }
