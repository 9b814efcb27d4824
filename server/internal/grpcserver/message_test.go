// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// TestUnfinishedMessage: a request whose message does not end is answered after ten seconds. A
// stream of the health service stays open.
func TestUnfinishedMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, sent string
		ends               bool
		after              time.Duration
		code               string
	}{
		{"none", healthpb.Health_Check_FullMethodName, "", false, 10 * time.Second, "4"},
		{"half", healthpb.Health_Check_FullMethodName, "\x00\x00\x00\x00\x03\x0a", false, 10 * time.Second, "4"},
		{"no end", healthpb.Health_Check_FullMethodName, "\x00\x00\x00\x00\x00", false, 10 * time.Second, "4"},
		{"whole", healthpb.Health_Check_FullMethodName, "\x00\x00\x00\x00\x00", true, 0, "0"},
		{"stream", healthpb.Health_Watch_FullMethodName, "\x00\x00\x00\x00\x00", true, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				front, s := bufconn.Listen(1<<16), server()
				served := make(chan error, 1)
				go func() { served <- s.Serve(front) }()
				protocols := new(http.Protocols)
				protocols.SetUnencryptedHTTP2(true)
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return front.DialContext(ctx) }
				client := &http.Client{Transport: &http.Transport{DialContext: dial, Protocols: protocols}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				body, sender := io.Pipe()
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://front.example"+c.method, body)
				if err != nil {
					t.Fatal(err)
				}
				q.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
				go func() {
					_, _ = io.WriteString(sender, c.sent) // an error means that the request has ended
					if c.ends {
						_ = sender.Close() // it always returns nil
					}
				}()
				began := time.Now()
				resp, err := client.Do(q)
				if err != nil {
					t.Error(err)
					resp = &http.Response{Body: http.NoBody}
				}
				_, _ = io.Copy(io.Discard, resp.Body) // an error means that the stream has stayed
				code := resp.Header.Get("Grpc-Status")
				if code == "" {
					code = resp.Trailer.Get("Grpc-Status")
				}
				if after := time.Since(began); after != c.after || code != c.code {
					t.Errorf("code %q after %v, want %q after %v", code, after, c.code, c.after)
				}
				if err := errors.Join(sender.Close(), s.Close(), <-served, resp.Body.Close()); err != nil {
					t.Error(err)
				}
				client.CloseIdleConnections()
			})
		})
	}
}

// TestCompressed: compressed requests are refused.
func TestCompressed(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	health := healthpb.NewHealthClient(c)
	if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{}, grpc.UseCompressor(gzip.Name))
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("watch: %v", err)
	}
}
