// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// TestAllocations counts the allocations of a call that passes, less those of grpc.
func TestAllocations(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "api.example.com", "x-user", "u1", "content-type", "application/grpc"))
	info := &grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"}
	handler := func(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // nobody looks
	for _, c := range []struct {
		name string
		key  policy.Part
		most float64
	}{
		{"peer", policy.IP(), 1},                 // the key
		{"metadata", policy.Header("X-User"), 1}, // its values
		{"method", grpclimit.ByMethod(), 0},
	} {
		lim, err := grpclimit.Limit(memstore.New(memstore.Options{}), "api", c.key, sluice.PerSecond(1_000_000_000))
		if err != nil {
			t.Fatal(err)
		}
		unary := lim.Unary()
		got := c.most + 1 // the fewest of many: under the race detector a sync.Pool forgets one in four
		for range 100 {
			got = min(got, testing.AllocsPerRun(1, func() {
				if _, err := unary(ctx, nil, info, handler); err != nil {
					t.Error(err)
				}
			}))
		}
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}

func BenchmarkUnary(b *testing.B) {
	lim, err := grpclimit.Limit(memstore.New(memstore.Options{}), "api", policy.IP(), sluice.PerSecond(1_000_000_000))
	if err != nil {
		b.Fatal(err)
	}
	ctx := peer.NewContext(b.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "api.example.com"))
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	info := &grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"}
	handler := func(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // nobody looks
	unary := lim.Unary()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := unary(ctx, nil, info, handler); err != nil {
			b.Fatal(err)
		}
	}
}
