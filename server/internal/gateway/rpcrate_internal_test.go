// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluicegate/sluice/internal/testkit"
)

// rpcRate is a least rate, in bytes a second, that no body here keeps.
const rpcRate = 1_000_000

// summing is a service that answers when its client has sent all.
type summing struct {
	testgrpc.UnimplementedTestServiceServer
}

func (summing) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	var n int32
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
		n += int32(len(m.GetPayload().GetBody()))
	}
}

// TestSlowStream: a gRPC stream without an answer may bring a message now and then, however
// high the least rate of bodies is, and for longer than other requests may take.
func TestSlowStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		testgrpc.RegisterTestServiceServer(server, summing{})
		go func() { _ = server.Serve(up) }() // Stop ends it
		g, err := New("h2c://upstream.example", Options{LongestRequest: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		g.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return up.DialContext(ctx) }
		reported := 0
		front := overPipes(t, WithLeastRate(g, time.Minute, func() int64 { return rpcRate }, func() { reported++ }))
		conn, err := grpc.NewClient("passthrough:///front.example", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return front.Dial(ctx, "", "") }))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := testgrpc.NewTestServiceClient(conn).StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(50 * time.Second) // it must not stand still for a minute
			if err := stream.Send(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := stream.CloseAndRecv(); err != nil || got.GetAggregatedPayloadSize() != 10 {
			t.Errorf("got %v, %v, want all 10 bytes", got, err)
		}
		if reported != 0 {
			t.Error("counted as cut off")
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		g.Close()
	})
}

// TestSlowBodyLikeRPC: HTTP/1 has no gRPC, whatever a body is called, and over HTTP/2 other
// bodies must keep the rate.
func TestSlowBodyLikeRPC(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		h2         bool
	}{
		{"HTTP/1", "application/grpc", false},
		{"HTTP/1 with a codec", "application/grpc+proto", false},
		{"gRPC-Web over HTTP/2", "application/grpc-web+proto", true},
		{"a longer word", "application/grpcx", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported, failure := 0, error(nil)
				front := overPipes(t, WithLeastRate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, failure = io.Copy(io.Discard, r.Body); failure != nil {
						w.WriteHeader(http.StatusRequestTimeout)
					}
				}), time.Minute, func() int64 { return rpcRate }, func() { reported++ }))
				body, sender := io.Pipe()
				go func() {
					for range 10 {
						time.Sleep(5 * time.Second)
						_, _ = io.WriteString(sender, "x") // an error means that it was cut off
					}
					_ = sender.Close()
				}()
				if got := post(t, front, c.h2, c.kind, body); got != http.StatusRequestTimeout || failure == nil || reported != 1 {
					t.Errorf("got %d, %v, reported %d times; want a body that is cut off", got, failure, reported)
				}
				_ = body.Close()
				time.Sleep(time.Hour) // the sender ends
			})
		})
	}
}

// post sends a body over one version of HTTP and returns the status.
func post(t *testing.T, to *testkit.Pipes, h2 bool, kind string, body io.Reader) int {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols, DialContext: to.Dial}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front.example/", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}
