// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

type rpcService struct {
	testgrpc.UnimplementedTestServiceServer
}

func (rpcService) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

// TestRPC: gRPC calls without TLS pass a gateway, under rules on methods and metadata, and a
// denial is a gRPC status.
func TestRPC(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, rpcService{})
	go func() { _ = server.Serve(l) }() // Stop ends it
	t.Cleanup(server.Stop)
	s := servetest.Start(t, fmt.Sprintf(`
upstream: h2c://%s
rules:
  - {name: calls, match: {path: /grpc.testing.TestService/EmptyCall}, by: header.X-Api-Key, limits: 1/h}
`, l.Addr()), servetest.Stopped)
	conn, err := grpc.NewClient(strings.TrimPrefix(s.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, conn)
	client := testgrpc.NewTestServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	defer cancel()
	for _, c := range []struct {
		key  string
		want codes.Code
	}{{"a", codes.OK}, {"a", codes.ResourceExhausted}, {"b", codes.OK}, {"", codes.InvalidArgument}} {
		_, err := client.EmptyCall(metadata.AppendToOutgoingContext(ctx, "x-api-key", c.key), &testgrpc.Empty{})
		if status.Code(err) != c.want {
			t.Errorf("key %q: got %v, want %v", c.key, err, c.want)
		}
	}
	_, err = client.UnimplementedCall(ctx, &testgrpc.Empty{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want the upstream's own", err)
	}
	testkit.Contains(t, s.Banner, "-> h2c://")
}
