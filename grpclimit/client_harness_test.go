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
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
)

// clientService answers calls that were let in.
type clientService struct {
	pb.UnimplementedTestServiceServer
}

func (clientService) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}

// StreamingOutputCall sends a message of some bytes for each parameter.
func (clientService) StreamingOutputCall(r *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for range r.GetResponseParameters() {
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte("hello")}}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall answers with the number of messages.
func (clientService) StreamingInputCall(s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	for n := int32(0); ; n++ {
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
	}
}

// FullDuplexCall echoes.
func (clientService) FullDuplexCall(s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// clientAnswer decides the n-th call, from 1: the metadata of its header and its
// trailer, and its error.
type clientAnswer func(n int64) (header, trailer metadata.MD, err error)

// clientServer is a server whose calls are decided before they are handled.
type clientServer struct {
	answer          clientAnswer
	ending          func() (trailer metadata.MD, err error) // of streams that were let in, if not nil
	calls           atomic.Int64
	allowed, denied atomic.Int64
	latency, work   time.Duration // before and after the decision, and then of the handler; only in a bubble
}

func (s *clientServer) decide() (header metadata.MD, trailer metadata.MD, err error) {
	if s.latency+s.work > 0 {
		time.Sleep(s.latency)
		defer time.Sleep(s.latency + s.work)
	}
	header, trailer, err = s.answer(s.calls.Add(1))
	if err == nil {
		s.allowed.Add(1)
	} else {
		s.denied.Add(1)
	}
	return header, trailer, err
}

func (s *clientServer) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	header, trailer, err := s.decide()
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

func (s *clientServer) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	header, trailer, err := s.decide()
	ss.SetTrailer(trailer)
	if header != nil {
		if err := ss.SetHeader(header); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := handle(srv, ss); err != nil || s.ending == nil {
		return err
	}
	trailer, err = s.ending()
	ss.SetTrailer(trailer)
	return err
}

// clientServe starts a server, on a loopback port, or in memory within a bubble
// of testing/synctest, and returns a connection that keeps to its limits.
func clientServe(t testing.TB, s *clientServer, o grpclimit.ClientOptions, inMemory bool, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpclimit.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	more = append(more, grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream()))
	return clientDial(t, s, inMemory, more...)
}

// clientDial is clientServe of a connection that keeps to nothing.
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
	pb.RegisterTestServiceServer(srv, clientService{})
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

// clientLimit decides by a limit of the library, as this package's server says it:
// denials have RetryInfo, QuotaFailure and a trailer, and if stated is set every
// answer has the limit in its header.
func clientLimit(t testing.TB, text string, stated bool) clientAnswer {
	t.Helper()
	limit, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := sluice.New(memstore.New(memstore.Options{}), "api", limit)
	if err != nil {
		t.Fatal(err)
	}
	term := lim.Plan().Term(0)
	policy := fmt.Sprintf(`%q;q=%d;w=%d`, term.Name, term.Quota, int64(term.Window/time.Second))
	if term.Burst > 0 && term.Burst != term.Quota {
		policy += fmt.Sprintf(";sluice-burst=%d", term.Burst)
	}
	return func(int64) (metadata.MD, metadata.MD, error) {
		d, err := lim.Take(context.Background(), "caller", 1)
		if err != nil {
			return nil, nil, err
		}
		wait := d.ResetAfter
		if !d.Allowed {
			wait = d.RetryAfter
		}
		said := metadata.Pairs(
			"ratelimit-policy", policy,
			"ratelimit", fmt.Sprintf(`%q;r=%d;t=%d`, term.Name, d.Remaining, int64((wait+time.Second-1)/time.Second)),
		)
		switch {
		case !d.Allowed:
			return nil, metadata.Join(said, clientPushback(d.RetryAfter)), clientDenial(codes.ResourceExhausted, d.RetryAfter)
		case stated:
			return said, nil, nil
		}
		return nil, nil, nil
	}
}

// clientPushback says after how long to come back, in whole milliseconds.
func clientPushback(wait time.Duration) metadata.MD {
	return metadata.Pairs("grpc-retry-pushback-ms", fmt.Sprint(int64((wait+time.Millisecond-1)/time.Millisecond)))
}

// clientDenial is a denial by code with RetryInfo and QuotaFailure.
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
	_, err := pb.NewTestServiceClient(conn).EmptyCall(ctx, &pb.Empty{}, opts...)
	return err
}
