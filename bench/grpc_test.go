// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"net"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// BenchmarkGRPC measures empty unary calls over a loopback connection, client and
// server in this process: what grpclimit adds is the difference to "none".
func BenchmarkGRPC(b *testing.B) {
	for _, c := range []struct {
		name   string
		limit  sluice.Limit
		fields bool
		want   codes.Code
	}{
		{"none", sluice.Limit{}, false, codes.OK},
		{"sluice", sluice.PerSecond(1_000_000_000), false, codes.OK},
		{"sluice.fields", sluice.PerSecond(1_000_000_000), true, codes.OK},
		{"sluice.denied", sluice.PerHour(1), false, codes.ResourceExhausted},
	} {
		b.Run("who="+c.name, func(b *testing.B) {
			var options []grpc.ServerOption
			if c.name != "none" {
				lim, err := grpclimit.New(grpclimit.Options{
					Store: memstore.New(memstore.Options{}), Fields: c.fields,
					Rules: []policy.Rule{policy.NewRule("api", policy.IP(), c.limit)},
				})
				if err != nil {
					b.Fatal(err)
				}
				options = lim.ServerOptions()
			}
			client := startGRPC(b, options...)
			client.EmptyCall(b.Context(), &testgrpc.Empty{}) //nolint:errcheck // spends what is there if it is to be denied
			b.ReportAllocs()
			start := processTime(b)
			b.ResetTimer()
			for b.Loop() {
				if _, err := client.EmptyCall(b.Context(), &testgrpc.Empty{}); status.Code(err) != c.want {
					b.Fatalf("%v, want %v", err, c.want)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func startGRPC(b *testing.B, options ...grpc.ServerOption) testgrpc.TestServiceClient {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(srv, empties{})
	go srv.Serve(listener) //nolint:errcheck // it ends with Stop
	b.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() }) //nolint:errcheck // nothing is to be lost
	return testgrpc.NewTestServiceClient(conn)
}

// empties answers empty calls.
type empties struct {
	testgrpc.UnimplementedTestServiceServer
}

func (empties) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}
