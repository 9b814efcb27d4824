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

// overPipes serves a handler without TLS until the test is over.
func overPipes(t *testing.T, handler http.Handler) *testkit.Pipes {
	t.Helper()
	p := testkit.NewPipes()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

// TestIdleStream: a gRPC stream whose upstream has begun to answer may be silent in both
// directions. Any other body must progress, whatever the client calls it, and so must a stream
// before the answer.
func TestIdleStream(t *testing.T) {
	const patience = time.Minute
	for _, c := range []struct {
		name, sent, answered string
		begins               bool // the answer, before the client is silent
		passes               bool
	}{
		{"a stream", "application/grpc", "application/grpc+proto", true, true},
		{"not answered yet", "application/grpc", "application/grpc", false, false},
		{"of something else", "application/grpc", "text/plain", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", c.answered)
					if c.begins {
						_ = http.NewResponseController(w).Flush()
					}
					_, _ = io.Copy(flushing{w}, r.Body) // the client checks it
				}))
				g, err := New("h2c://upstream.example", Options{ResponseTimeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				g.transport.DialContext = up.Dial
				front := overPipes(t, WithDeadlines(g, patience))
				transport := &http.Transport{Protocols: g.transport.Protocols, DialContext: front.Dial}
				body, sender := io.Pipe()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front.example/", body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", c.sent)
				go func() {
					for _, word := range []string{"one ", "two ", "three"} {
						time.Sleep(5 * patience)
						_, _ = io.WriteString(sender, word) // an error means that the stream has ended
					}
					_ = sender.Close()
				}()
				got, err := answerOf(transport, req)
				if passed := err == nil && got == "one two three"; passed != c.passes {
					t.Errorf("got %q, %v", got, err)
				}
				_ = body.Close()
				time.Sleep(20 * patience) // the sender ends
				transport.CloseIdleConnections()
				g.Close()
			})
		})
	}
}

func answerOf(transport *http.Transport, req *http.Request) (string, error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(resp.Body)
	return string(got), errors.Join(err, resp.Body.Close())
}

// flushing flushes every write.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	return n, errors.Join(err, http.NewResponseController(f.ResponseWriter).Flush())
}

// TestStatusAlone: an upstream's answer that is a header alone stays one, also if it is
// flushed before its end is known: a gRPC client takes another form for broken, or for one
// that it may not retry.
func TestStatusAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "8")
		}))
		g, err := New("h2c://upstream.example", Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.transport.DialContext = up.Dial
		g.proxy.FlushInterval = time.Nanosecond // as on a machine busier than usual
		g.proxy.ModifyResponse = func(resp *http.Response) error {
			resp.Header.Del("Content-Length") // gRPC servers do not send it
			resp.Body = slowEnd{}
			return nil
		}
		front := overPipes(t, g)
		transport := &http.Transport{Protocols: g.transport.Protocols, DialContext: front.Dial}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("Grpc-Status") != "8" || resp.ContentLength != 0 {
			t.Errorf("got %v with a body of %d bytes, want the header alone", resp.Header, resp.ContentLength)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		g.Close()
	})
}

// slowEnd is an empty body that takes a while to end.
type slowEnd struct{}

func (slowEnd) Read([]byte) (int, error) {
	time.Sleep(time.Second)
	return 0, io.EOF
}

func (slowEnd) Close() error { return nil }

// echo is a service that sends back each message.
type echo struct {
	testgrpc.UnimplementedTestServiceServer
}

func (echo) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
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

// TestIdleStreamOfServer: a gRPC server, which closes connections that are pinged too often,
// keeps a stream that is idle for hours.
func TestIdleStreamOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		testgrpc.RegisterTestServiceServer(server, echo{})
		go func() { _ = server.Serve(up) }() // Stop ends it
		g, err := New("h2c://upstream.example", Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return up.DialContext(ctx) }
		front := overPipes(t, WithDeadlines(g, time.Minute))
		conn, err := grpc.NewClient("passthrough:///front.example", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return front.Dial(ctx, "", "") }))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
		}
		if err := errors.Join(stream.CloseSend(), conn.Close()); err != nil {
			t.Error(err)
		}
		server.Stop()
		g.Close()
	})
}
