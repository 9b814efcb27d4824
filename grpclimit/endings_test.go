// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// endings are the ways in which calls of TestEndings end.
var endings = []string{"well", "error", "panic", "hang", "key", "cost", "reported", "size", "busy", "rest"}

// howOf returns the way in which a call must end.
func howOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if how := md.Get("how"); len(how) == 1 {
		return how[0]
	}
	return ""
}

// run ends a call in the requested way.
func run(ctx context.Context) error {
	switch howOf(ctx) {
	case "error":
		return status.Error(codes.Unauthenticated, "as asked")
	case "panic":
		panic("as asked")
	case "hang": // until its client leaves
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// endsAsAsked is a service whose calls end as requested, and whose streams leave goroutines
// behind that still use them.
func endsAsAsked(left, running *atomic.Int64) *service {
	behind := func(f func()) { // the handler
		left.Add(1)
		go func() {
			defer left.Add(-1)
			f()
		}()
	}
	return &service{
		unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			running.Add(1)
			defer running.Add(-1)
			return &testgrpc.SimpleResponse{}, run(ctx)
		},
		duplex: func(stream testgrpc.TestService_FullDuplexCallServer) error {
			ctx := stream.Context()
			if how := howOf(ctx); how == "busy" || how == "rest" {
				began := make(chan struct{}, 2)
				behind(func() {
					for began <- struct{}{}; ctx.Err() == nil; {
						_ = stream.Send(&testgrpc.StreamingOutputCallResponse{})
					}
				})
				behind(func() {
					for began <- struct{}{}; ctx.Err() == nil; {
						_, _ = stream.Recv()
					}
				})
				<-began
				<-began
				return nil
			}
			if _, err := stream.Recv(); err != nil && howOf(ctx) == "error" {
				return errors.New("another error")
			}
			return run(ctx)
		},
	}
}

// TestEndings: however calls end, by their handlers, their clients or panics of hooks, all
// slots are free afterwards.
func TestEndings(t *testing.T) {
	const most = 6
	crowd := policy.NewRule("crowd", policy.IP(), sluice.PerMinute(1_000_000))
	crowd.Levels[0].InFlight = &sluice.SlotLimit{Name: "crowd", Cap: most, TTL: time.Hour}
	crowd.When = &policy.When{Status: grpclimit.Statuses(codes.Unauthenticated), ChargeFirst: true}
	keyed := policy.NewRule("keyed", grpclimit.KeyFunc("key", func(c grpclimit.Call) (string, error) {
		if howOf(c.Context) == "key" {
			panic("as asked")
		}
		return "k", nil
	}), sluice.PerMinute(1_000_000))
	keyed.Cost = policy.Cost{Func: &policy.CostFunc{After: func(a policy.Attributes, _ *policy.Response) int64 {
		if howOf(grpclimit.CallOf(a).Context) == "cost" {
			panic("as asked")
		}
		return 2
	}}}
	options := func() grpclimit.Options {
		return grpclimit.Options{
			Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{crowd, keyed},
			Messages: []policy.Rule{rule(t, "messages", policy.IP(), "1000000/s burst 3")},
			Replies:  []policy.Rule{rule(t, "replies", policy.IP(), "1000000/s burst 3")},
			OnDecision: func(c grpclimit.Call, _ evaluate.Event) {
				if howOf(c.Context) == "reported" {
					panic("as asked")
				}
			},
			Size: func(m any) int {
				if r, ok := m.(*testgrpc.SimpleRequest); ok && r.GetFillUsername() {
					panic("as asked")
				}
				return 1
			},
		}
	}
	joint, waiting, apart := options(), options(), options()
	waiting.MaxWait = time.Minute
	apart.Slots = memstore.New(memstore.Options{})
	for name, o := range map[string]grpclimit.Options{"joint": joint, "waiting": waiting, "apart": apart} {
		t.Run(name, func(t *testing.T) {
			var clients sync.WaitGroup
			var left, running atomic.Int64
			client, _ := start(t, endsAsAsked(&left, &running), o, recovering(), grpc.ChainStreamInterceptor(recoverStream))
			for seed := range uint64(8) {
				random := rand.New(rand.NewPCG(seed, 1))
				clients.Go(func() {
					for range 150 {
						endOne(t.Context(), client, random)
					}
				})
			}
			clients.Wait()
			none(&left)
			allFree(within(t), t, client, &running, most)
		})
	}
}

// none waits until the goroutines of handlers have ended. The handler of a call whose client
// has left may begin later, so this is no WaitGroup.
func none(left *atomic.Int64) {
	for left.Load() > 0 {
		runtime.Gosched()
	}
}

func recoverStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(srv, ss)
}

// endOne makes a unary call or a stream that ends in some way.
func endOne(ctx context.Context, client testgrpc.TestServiceClient, random *rand.Rand) {
	how := endings[random.IntN(len(endings))]
	ctx, leave := context.WithTimeout(as(ctx, "how", how), time.Duration(1+random.IntN(20))*time.Millisecond)
	defer leave()
	if random.IntN(4) == 0 {
		leave()
	}
	if random.IntN(2) == 0 {
		call(ctx, client, &testgrpc.SimpleRequest{FillUsername: how == "size"})
		return
	}
	echo(ctx, client, make([]int, random.IntN(4))...)
}

// allFree waits until the largest number of calls can run at once.
func allFree(ctx context.Context, t *testing.T, client testgrpc.TestServiceClient, running *atomic.Int64, most int) {
	t.Helper()
	for full := false; !full; {
		var calls sync.WaitGroup
		round, leave := context.WithCancel(as(ctx, "how", "hang"))
		for range most {
			calls.Go(func() {
				if call(round, client, &testgrpc.SimpleRequest{}) == denied {
					leave()
				}
			})
		}
		for !full && round.Err() == nil {
			runtime.Gosched()
			full = running.Load() == int64(most)
		}
		leave()
		calls.Wait()
		if ctx.Err() != nil {
			t.Fatal("not all slots are free")
		}
	}
}
