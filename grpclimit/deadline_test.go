// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/teststore"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/remote"
)

// TestShortDeadlineLiftsNoLimit: calls whose grpc-timeout is shorter than the store's answer do
// not reach the handler beyond the limit, even if the failure policy is open.
func TestShortDeadlineLiftsNoLimit(t *testing.T) {
	redis := teststore.New(t, redistest.Start(t, redistest.Redis(t)).Addr, redisstore.Options{Timeout: testkit.Ceiling})
	store, err := remote.Wrap(redis, remote.Options{Policy: sluice.FailOpen, Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, store)
	var ran atomic.Int64
	client, _ := start(t, &service{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		ran.Add(1)
		return &testgrpc.SimpleResponse{}, nil
	}}, grpclimit.Options{Store: store, Rules: []policy.Rule{rule(t, "api", policy.IP(), "5/h sliding-log")}})
	var group sync.WaitGroup
	for after := time.Microsecond; after < 5*time.Millisecond; after += after/2 + time.Microsecond {
		for range 10 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				switch _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}); status.Code(err) {
				case codes.OK, codes.DeadlineExceeded, codes.ResourceExhausted:
				default:
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	testkit.Until(t, "5 handlers to run, and a denial", func() bool { // units granted too late are given back a moment later
		_, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		return status.Code(err) == codes.ResourceExhausted && ran.Load() >= 5
	})
	if n := ran.Load(); n != 5 {
		t.Errorf("%d handlers ran, want 5", n)
	}
}
