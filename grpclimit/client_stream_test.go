// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/grpclimit"
)

// clientDown opens a stream of n messages to the client, and reads it to its end.
func clientDown(ctx context.Context, conn *grpc.ClientConn, n int) (got int, err error) {
	s, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{ResponseParameters: make([]*testgrpc.ResponseParameters, n)})
	for err == nil {
		if _, err = s.Recv(); err == nil {
			got++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, err
}

// TestClientPacesStreams: streams open at the pace of the limit, and none is denied once that is
// known; a denied stream is not opened again.
func TestClientPacesStreams(t *testing.T) {
	for _, stated := range []bool{false, true} {
		for _, messages := range []int{0, 1, 5} {
			t.Run(fmt.Sprintf("stated=%v messages=%d", stated, messages), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newClientServer(t, "10/s burst 1", stated)
					conn := clientServe(t, s, grpclimit.ClientOptions{}, true)
					start := time.Now()
					denied := int64(0)
					for range 30 {
						got, err := clientDown(t.Context(), conn, messages)
						switch {
						case status.Code(err) == codes.ResourceExhausted:
							denied++
						case err != nil || got != messages:
							t.Fatalf("got %d, %v; want %d messages", got, err, messages)
						}
					}
					if got := s.denied.Load(); got != denied || got > 1 || stated && got > 0 || s.calls.Load() != 30 {
						t.Errorf("%d of %d streams were denied, the application saw %d", got, s.calls.Load(), denied)
					}
					if took := time.Since(start); took > 3*time.Second {
						t.Errorf("took %v; want at most 3s", took)
					}
				})
			})
		}
	}
}

// TestClientStreamDenied: each way in which an application learns of a stream's denial also
// notifies the budget.
func TestClientStreamDenied(t *testing.T) {
	denial := clientSays(clientDenial(codes.ResourceExhausted, 8*time.Second), "grpc-retry-pushback-ms", "8000")
	for _, c := range []struct {
		name string
		call func(context.Context, testgrpc.TestServiceClient) error
	}{
		{"Recv", func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}},
		{"Recv twice", func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
			if err == nil {
				_, err = s.Recv()
				time.Sleep(5 * time.Second)
				if _, again := s.Recv(); again == nil {
					t.Error("the second Recv got no error")
				}
			}
			return err
		}},
		{"Header, then Recv", func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
			if err != nil {
				return err
			}
			if header, err := s.Header(); err != nil || len(header) > 0 {
				t.Errorf("Header: got %v, %v; want neither", header, err)
			}
			_, err = s.Recv()
			if got := s.Trailer()["grpc-retry-pushback-ms"]; len(got) != 1 {
				t.Errorf("Trailer: got %v; want the server's pushback", got)
			}
			return err
		}},
		{"CloseAndRecv", func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.StreamingInputCall(ctx)
			if err == nil {
				_, err = s.CloseAndRecv()
			}
			return err
		}},
		{"Send until it fails, then Recv", func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.FullDuplexCall(ctx)
			for err == nil {
				err = s.Send(&testgrpc.StreamingOutputCallRequest{})
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("Send: got %v; want %v", err, io.EOF)
			}
			_, err = s.Recv()
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientScript(denial)
				conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
				err := c.call(t.Context(), testgrpc.NewTestServiceClient(conn))
				if status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 2 {
					t.Errorf("got %v; want the server's denial", err)
				}
				if got := s.calls.Load(); got != 1 {
					t.Errorf("the stream was opened %d times; want once", got)
				}
				if _, err := clientDown(t.Context(), conn, 1); err != nil || s.at[1] != 8*time.Second {
					t.Errorf("the next stream: got %v, at %v; want it let in at 8s", err, s.at)
				}
			})
		})
	}
}

// TestClientStreamDeniedLate: a denial after the first message delays the
// calls after it.
func TestClientStreamDeniedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript()
		s.ending = func() (metadata.MD, error) { return nil, clientDenial(codes.ResourceExhausted, 8*time.Second) }
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		if n, err := clientDown(t.Context(), conn, 3); n != 3 || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %d messages, %v; want 3 and a denial", n, err)
		}
		if err := clientCall(t.Context(), conn); err != nil || s.at[1] != 8*time.Second {
			t.Errorf("the next call: got %v, at %v; want it let in at 8s", err, s.at)
		}
	})
}

// TestClientStreamHeaderIsHeardOnce: the statement of the header is not repeated when the
// stream ends.
func TestClientStreamHeaderIsHeardOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientStates("ratelimit", `"a";r=0;t=10`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		stream, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		for i := range 2 {
			if err := clientCall(t.Context(), conn); err != nil || s.at[i+1] != 10*time.Second {
				t.Errorf("the next call: got %v, at %v; want it let in at 10s", err, s.at)
			}
		}
	})
}

// TestClientStreamFirstWord: the header's statement counts as soon as there is a message,
// however late, and not only when the stream ends.
func TestClientStreamFirstWord(t *testing.T) {
	for _, latency := range []time.Duration{0, 2 * time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientScript(clientStates("ratelimit", `"a";r=0;t=10`))
				s.latency = latency
				conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
				stream, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := stream.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
				heard := time.Since(s.start)
				s.latency = 0
				if err := clientCall(t.Context(), conn); err != nil || s.at[1] != heard+10*time.Second {
					t.Errorf("the next call: got %v, at %v; want it let in 10s after %v", err, s.at, heard)
				}
			})
		})
	}
}

// TestClientStreamKeepsItsContract: an application sees of a stream the same as without the
// interceptor.
func TestClientStreamKeepsItsContract(t *testing.T) {
	s := newClientScript()
	s.answer = func(int64) (metadata.MD, metadata.MD, error) {
		return metadata.Pairs("h", "1", "ratelimit", `"a";r=1000;t=1`), metadata.Pairs("t", "2"), nil
	}
	conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, false)
	c := testgrpc.NewTestServiceClient(conn)

	up, err := c.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := up.Send(&testgrpc.StreamingInputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := up.CloseAndRecv(); err != nil || res.GetAggregatedPayloadSize() != 3 {
		t.Errorf("CloseAndRecv: got %v, %v; want 3 messages counted", res, err)
	}
	if got := up.Trailer()["t"]; len(got) != 1 || got[0] != "2" {
		t.Errorf("Trailer: got %v; want the server's", got)
	}

	both, err := c.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := both.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := both.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if header, err := both.Header(); err != nil || len(header["h"]) != 1 {
		t.Errorf("Header: got %v, %v; want the server's", header, err)
	}
	if err := both.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := both.Recv(); err != io.EOF { //nolint:errorlint // the contract is this value
		t.Errorf("Recv: got %v; want %v", err, io.EOF)
	}
	if both.Context().Err() == nil {
		t.Error("the stream's own context has not ended with it")
	}
}

// failingCredentials always fail, so that no call is sent.
type failingCredentials struct{}

func (failingCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errors.New("no credentials")
}

func (failingCredentials) RequireTransportSecurity() bool { return false }

// TestClientLeavesStreams: a stream that fails to open, that the application leaves, or whose
// server does not answer for long, takes no units from others.
func TestClientLeavesStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(context.Context, testgrpc.TestServiceClient, context.CancelFunc) error
		next time.Duration // after it a call that waits for the stream's answer may go ahead
	}{
		{"left", func(ctx context.Context, c testgrpc.TestServiceClient, leave context.CancelFunc) error {
			_, err := c.StreamingInputCall(ctx)
			synctest.Wait()
			leave()
			return err
		}, 11 * time.Second},
		{"silent", func(ctx context.Context, c testgrpc.TestServiceClient, _ context.CancelFunc) error {
			_, err := c.StreamingInputCall(ctx)
			return err
		}, 11 * time.Second},
		{"not opened", func(ctx context.Context, c testgrpc.TestServiceClient, _ context.CancelFunc) error {
			if _, err := c.StreamingInputCall(ctx, grpc.PerRPCCredentials(failingCredentials{})); err == nil {
				return errors.New("the stream was opened")
			}
			return nil
		}, 10 * time.Second},
		{"failed", func(ctx context.Context, c testgrpc.TestServiceClient, _ context.CancelFunc) error {
			s, err := c.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{ResponseParameters: make([]*testgrpc.ResponseParameters, 1)}, grpc.MaxCallRecvMsgSize(1))
			if err != nil {
				return err
			}
			if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
				return fmt.Errorf("got %w; want %v, as the message is too large", err, codes.ResourceExhausted)
			}
			return nil
		}, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newClientScript(clientStates("ratelimit", `"a";r=0;t=10`))
				conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
				if err := clientCall(t.Context(), conn); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				// The next time is not known: the first goes ahead, and the others wait for its
				// answer.
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := c.open(ctx, testgrpc.NewTestServiceClient(conn), cancel); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // until the server is at rest
				s.latency = 400 * time.Millisecond
				var wg sync.WaitGroup
				for range 2 { // there has been no answer, so they go one by one
					wg.Go(func() {
						if err := clientCall(t.Context(), conn); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if got, want := fmt.Sprint(s.at[len(s.at)-2:]), fmt.Sprint([]time.Duration{c.next + 400*time.Millisecond, c.next + 1200*time.Millisecond}); got != want {
					t.Errorf("the next calls came at %v; want %v", got, want)
				}
			})
		})
	}
}
