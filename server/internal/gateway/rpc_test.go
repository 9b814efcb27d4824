// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// rpcService answers with the metadata that it got: a call by a header and a trailer, a stream
// by an echo of each message.
type rpcService struct {
	testgrpc.UnimplementedTestServiceServer
}

func (rpcService) UnaryCall(ctx context.Context, req *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if err := errors.Join(grpc.SetHeader(ctx, metadata.Pairs("at", "header", "got", strings.Join(md["x-key"], ","))), grpc.SetTrailer(ctx, metadata.Pairs("at", "trailer"))); err != nil {
		return nil, err
	}
	if st := req.GetResponseStatus(); st != nil {
		return nil, status.Error(codes.Code(st.GetCode()), st.GetMessage())
	}
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: make([]byte, req.GetResponseSize())}}, nil
}

func (rpcService) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	stream.SetTrailer(metadata.Pairs("at", "trailer"))
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.DataLoss, "100 % gone")
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
			return err
		}
	}
}

// rpcServer returns the address of a gRPC server without TLS.
func rpcServer(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, rpcService{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		check(t, <-ended)
	})
	return l.Addr().String()
}

// h2cFront returns the address of a server of HTTP/2 without TLS before a handler.
func h2cFront(t *testing.T, handler http.Handler, after ...func()) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		for _, f := range after {
			f()
		}
		check(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func rpcClient(t *testing.T, address string) testgrpc.TestServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, conn)
	return testgrpc.NewTestServiceClient(conn)
}

// rpcGateway returns the address of a gateway with limits to a gRPC server.
func rpcGateway(t *testing.T, limit sluice.Limit, options ...grpc.ServerOption) string {
	t.Helper()
	g, err := gateway.New("h2c://"+rpcServer(t, options...), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h2cFront(t, gateway.WithDeadlines(behind(t, g, limit), time.Minute), g.Close)
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	t.Cleanup(cancel)
	return ctx
}

func wantStatus(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != code || !strings.Contains(st.Message(), message) {
		t.Errorf("got %v, want %v with %q", err, code, message)
	}
}

// TestRPC: calls pass with their messages, metadata, status and trailers.
func TestRPC(t *testing.T) {
	client := rpcClient(t, rpcGateway(t, sluice.PerMinute(100)))
	var header, trailer metadata.MD
	ctx := metadata.AppendToOutgoingContext(patient(t), "x-key", "k1")
	got, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 100_000}, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil || len(got.GetPayload().GetBody()) != 100_000 {
		t.Fatalf("got %d bytes, %v", len(got.GetPayload().GetBody()), err)
	}
	if header["at"][0] != "header" || header["got"][0] != "k1" || trailer["at"][0] != "trailer" {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	if header["ratelimit"] == nil {
		t.Errorf("no RateLimit in %v", header)
	}
	_, err = client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.NotFound), Message: "naïve: 100 %"}}, grpc.Trailer(&trailer))
	wantStatus(t, err, codes.NotFound, "naïve: 100 %")
	if trailer["at"][0] != "trailer" {
		t.Errorf("trailer %v", trailer)
	}
	_, err = client.UnimplementedCall(ctx, &testgrpc.Empty{})
	wantStatus(t, err, codes.Unimplemented, "UnimplementedCall")
}

// TestRPCStreams: each message of a stream passes before the next is sent, and more streams
// run at once than one upstream connection takes.
func TestRPCStreams(t *testing.T) {
	client := rpcClient(t, rpcGateway(t, sluice.PerMinute(200), grpc.MaxConcurrentStreams(100)))
	ctx := patient(t)
	var streams []testgrpc.TestService_FullDuplexCallClient
	for range 120 {
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	for i := range 3 {
		for _, stream := range streams {
			if err := stream.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 1+i*5_000)}}); err != nil {
				t.Fatal(err)
			}
			m, err := stream.Recv()
			if err != nil || len(m.GetPayload().GetBody()) != 1+i*5_000 {
				t.Fatalf("got %d bytes, %v", len(m.GetPayload().GetBody()), err)
			}
		}
	}
	for _, stream := range streams {
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		wantStatus(t, err, codes.DataLoss, "100 % gone")
		if at := stream.Trailer()["at"]; len(at) != 1 || at[0] != "trailer" {
			t.Errorf("trailer %v", stream.Trailer())
		}
	}
}

// TestRPCCancelled: an upstream learns that a client has left.
func TestRPCCancelled(t *testing.T) {
	left := make(chan error, 1)
	watch := grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		err := handler(srv, ss)
		left <- ss.Context().Err()
		return err
	})
	client := rpcClient(t, rpcGateway(t, sluice.PerMinute(100), watch))
	ctx, cancel := context.WithCancel(patient(t))
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the upstream saw %v", err)
		}
	case <-patient(t).Done():
		t.Error("the upstream does not know that the client has left")
	}
}

// TestRPCDenied: a denial is a gRPC status with the time to retry, and other calls on the
// connection are unaffected.
func TestRPCDenied(t *testing.T) {
	client := rpcClient(t, rpcGateway(t, sluice.PerHour(2)))
	ctx := patient(t)
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	echo := func() {
		t.Helper()
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("the stream that was let in: %v", err)
		}
	}
	echo() // otherwise the calls after it may be evaluated first
	if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	var trailer metadata.MD
	_, err = client.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
	wantStatus(t, err, codes.ResourceExhausted, "")
	if up := trailer["grpc-retry-pushback-ms"]; len(up) != 1 || len(trailer["ratelimit"]) != 1 || len(trailer["retry-after"]) != 1 {
		t.Errorf("trailer %v", trailer)
	}
	echo()
}

// TestRPCUpstreamDown: a gRPC client gets UNAVAILABLE from an upstream that is down.
func TestRPCUpstreamDown(t *testing.T) {
	for name, to := range map[string]string{
		"nobody": "h2c://" + nobody,
		"HTTP/1": "h2c://" + strings.TrimPrefix(serve(t, http.NotFoundHandler()), "http://"),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := gateway.New(to, gateway.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = rpcClient(t, h2cFront(t, g, g.Close)).EmptyCall(patient(t), &testgrpc.Empty{})
			wantStatus(t, err, codes.Unavailable, "502")
		})
	}
}

// TestUpgradeToH2C: a request to switch protocol is a plain request to an HTTP/2 upstream.
func TestUpgradeToH2C(t *testing.T) {
	up := h2cFront(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Upgrade") != "" {
			t.Errorf("got %s with %v", r.Proto, r.Header)
		}
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front(t, "h2c://"+up, gateway.Options{}), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %s", resp.Status)
	}
}

// TestTrailersAreAskedFor: the upstream learns that its client accepts trailers, without which
// some gRPC servers refuse a call, and the client gets the answer's trailers.
func TestTrailersAreAskedFor(t *testing.T) {
	up := h2cFront(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" || r.Header.Get("Content-Type") != "application/grpc" {
			t.Errorf("got %v", r.Header)
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}))
	g, err := gateway.New("h2c://"+up+"/base", gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h2cFront(t, behind(t, g, sluice.PerMinute(9)), g.Close), strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Te", "trailers")
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, resp.Body.Close()) }()
	readAll(t, resp.Body)
	if resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("got %d, trailer %v", resp.StatusCode, resp.Trailer)
	}
}
