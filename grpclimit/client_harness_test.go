// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// clientService is service with streams of one direction.
type clientService struct{ service }

// StreamingOutputCall sends a message of some bytes for each parameter.
func (*clientService) StreamingOutputCall(r *testgrpc.StreamingOutputCallRequest, s grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	for range r.GetResponseParameters() {
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: []byte("hello")}}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall answers with the number of messages.
func (*clientService) StreamingInputCall(s grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	for n := int32(0); ; n++ {
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
	}
}

// clientAnswer decides the n-th call, from 1: it returns the metadata of its header and
// trailer, and its error.
type clientAnswer func(n int64) (header, trailer metadata.MD, err error)

// clientServer is a server; a limit, or answer, decides its calls before they are handled.
type clientServer struct {
	limit           *grpclimit.Server
	answer          clientAnswer
	ending          func() (trailer metadata.MD, err error) // of streams that were let in, if not nil
	calls           atomic.Int64
	allowed, denied atomic.Int64
	latency, work   time.Duration // before and after the decision, and then of the handler; only in a bubble
}

// newClientServer has one limit for all, stated on denials or always.
func newClientServer(t testing.TB, text string, always bool) *clientServer {
	t.Helper()
	limit, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	all := grpclimit.KeyFunc("all", func(grpclimit.Call) (string, error) { return "all", nil })
	s := &clientServer{}
	s.limit, err = grpclimit.New(grpclimit.Options{
		Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{policy.NewRule("api", all, limit)}, Fields: always,
		OnDecision: func(_ grpclimit.Call, e evaluate.Event) {
			if e.Verdict == evaluate.Denied {
				s.denied.Add(1)
			} else {
				s.allowed.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *clientServer) pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

func (s *clientServer) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s.pause(s.latency)
	defer s.pause(s.latency + s.work)
	n := s.calls.Add(1)
	if s.limit != nil {
		return s.limit.Unary()(ctx, req, info, handle)
	}
	header, trailer, err := s.answer(n)
	if header != nil {
		if err := grpc.SetHeader(ctx, header); err != nil {
			return nil, err
		}
	}
	if err := grpc.SetTrailer(ctx, trailer); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (s *clientServer) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s.pause(s.latency)
	n := s.calls.Add(1)
	slow := func(srv any, ss grpc.ServerStream) error {
		s.pause(s.latency + s.work)
		return handle(srv, ss)
	}
	if s.limit != nil {
		return s.limit.Stream()(srv, ss, info, slow)
	}
	header, trailer, err := s.answer(n)
	ss.SetTrailer(trailer)
	if header != nil {
		if err := ss.SetHeader(header); err != nil {
			return err
		}
	}
	if err != nil {
		s.pause(s.latency)
		return err
	}
	if err := slow(srv, ss); err != nil || s.ending == nil {
		return err
	}
	trailer, err = s.ending()
	ss.SetTrailer(trailer)
	return err
}

// clientServe starts a server, on a loopback port or in memory within a bubble of
// testing/synctest, and returns a connection that keeps to its limits.
func clientServe(t testing.TB, s *clientServer, o grpclimit.ClientOptions, inMemory bool, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpclimit.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	return clientDial(t, s, inMemory, append(more, c.DialOptions()...)...)
}

// clientDial is clientServe for a connection that ignores limits.
func clientDial(t testing.TB, s *clientServer, inMemory bool, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	var (
		l      net.Listener
		target string
		err    error
	)
	if inMemory {
		b := bufconn.Listen(1 << 16)
		l, target = b, fmt.Sprintf("passthrough:///%p", b)
		more = append(more, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return b.DialContext(ctx) }))
	} else {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		target = l.Addr().String()
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	testgrpc.RegisterTestServiceServer(srv, &clientService{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	conn, err := grpc.NewClient(target, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return conn
}

// clientDenial is a denial with a code, RetryInfo and QuotaFailure.
func clientDenial(code codes.Code, wait time.Duration) error {
	return clientDetailed(code, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
}

func clientDetailed(code codes.Code, info *errdetails.RetryInfo) error {
	st, err := status.New(code, "denied").WithDetails(info,
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: "api"}}})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// clientCall makes a unary call.
func clientCall(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(ctx, &testgrpc.Empty{}, opts...)
	return err
}
