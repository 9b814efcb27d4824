// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// two is a rule of two calls in flight.
func two() policy.Rule {
	return policy.Rule{Name: "crowd", Levels: []policy.Level{{By: []policy.Part{policy.IP()}, InFlight: &sluice.SlotLimit{Name: "crowd", Cap: 2, TTL: time.Minute}}}}
}

// TestInFlight: the limit's number of calls run, unary ones and streams, and a slot is free when
// its handler has ended, in any way.
func TestInFlight(t *testing.T) {
	running, leave := make(chan struct{}, 8), make(chan func(), 8)
	busy := &service{
		unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
			running <- struct{}{}
			(<-leave)()
			return &testgrpc.SimpleResponse{}, nil
		},
		duplex: func(testgrpc.TestService_FullDuplexCallServer) error {
			running <- struct{}{}
			(<-leave)()
			return nil
		},
	}
	recovered := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Error(codes.Internal, fmt.Sprint(p))
			}
		}()
		return handler(ctx, req)
	})
	client, _ := start(t, busy, grpclimit.Options{Rules: []policy.Rule{two()}}, recovered)
	ctx, ends := within(t), make(chan codes.Code, 2)
	for range 3 {
		go func() { ends <- call(ctx, client, &testgrpc.SimpleRequest{}) }()
		<-running
		go func() { _, code, _ := echo(ctx, client); ends <- code }()
		<-running
		var trailer metadata.MD
		_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
		retry, quota := detailsOf(err)
		if codeOf(err) != denied || retry != nil || len(trailer.Get("grpc-retry-pushback-ms")) != 0 || quota.GetViolations()[0].GetQuotaId() != "crowd/crowd" {
			t.Fatalf("a third: %v, RetryInfo %v, QuotaFailure %v, trailer %v", err, retry, quota, trailer)
		}
		leave <- func() {}
		leave <- func() {}
		want(t, "the two", []codes.Code{<-ends, <-ends}, ok, ok)
	}
	for range 3 { // a panic frees its place, too
		leave <- func() { panic("as asked") }
		want(t, "a call that panics", []codes.Code{call(ctx, client, &testgrpc.SimpleRequest{})}, codes.Internal)
		<-running
	}
}

const lease = 20 * time.Millisecond // of TestRenewed

// TestRenewed: a stream that outlasts its lease keeps its slot.
func TestRenewed(t *testing.T) {
	r := two()
	r.Levels[0].InFlight.Cap, r.Levels[0].InFlight.TTL = 1, lease
	running, leave := make(chan struct{}), make(chan struct{})
	slots := counted{renewals: make(chan struct{}, 100), now: new(atomic.Int64)}
	slots.SlotStore = memstore.New(memstore.Options{Now: func() time.Time { return time.Unix(1e9, slots.now.Load()) }})
	client, _ := start(t, &service{duplex: func(testgrpc.TestService_FullDuplexCallServer) error {
		running <- struct{}{}
		<-leave
		return nil
	}}, grpclimit.Options{Rules: []policy.Rule{r}, Store: memstore.New(memstore.Options{}), Slots: slots})
	ctx, ends := within(t), make(chan codes.Code)
	go func() { _, code, _ := echo(ctx, client); ends <- code }()
	<-running
	for range 6 { // twice its lease
		<-slots.renewals
	}
	if _, code, _ := echo(ctx, client); code != denied {
		t.Errorf("beside a stream that runs: %v", code)
	}
	close(leave)
	want(t, "the stream", []codes.Code{<-ends}, ok)
}

// counted reports renewals. They are due by its clock.
type counted struct {
	sluice.SlotStore
	renewals chan struct{}
	now      *atomic.Int64 // ns
}

func (c counted) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	d, err := c.SlotStore.Slot(ctx, req)
	if req.Op == sluice.SlotRenew && d.Allowed {
		c.now.Add(int64(lease / 3))
		select {
		case c.renewals <- struct{}{}:
		default:
		}
	}
	return d, err
}

// TestRetryPolicy: grpc-go's own retries obey the pushback: a call is denied once and then
// passes.
func TestRetryPolicy(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	for _, c := range []struct {
		name     string
		limit    string
		units    int64
		want     []codes.Code
		reported map[evaluate.VerdictKind]int
	}{
		{"waits", "2/s burst 1", 1, []codes.Code{ok, ok, ok}, map[evaluate.VerdictKind]int{evaluate.Allowed: 3, evaluate.Denied: 2}},
		{"gives up", "1/s", 2, []codes.Code{denied}, map[evaluate.VerdictKind]int{evaluate.Denied: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := make(chan evaluate.VerdictKind, 100)
				r := rule(t, "api", policy.IP(), c.limit)
				r.Cost.Units = c.units
				client := startInMemory(t, &service{}, grpclimit.Options{
					Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{r},
					OnDecision: func(_ grpclimit.Call, e evaluate.Event) { reported <- e.Verdict },
				}, grpc.WithDefaultServiceConfig(retries))
				want(t, "calls", times(len(c.want), func() codes.Code { return call(within(t), client, &testgrpc.SimpleRequest{}) }), c.want...)
				close(reported)
				got := map[evaluate.VerdictKind]int{}
				for kind := range reported {
					got[kind]++
				}
				if fmt.Sprint(got) != fmt.Sprint(c.reported) {
					t.Errorf("decided %v, want %v", got, c.reported)
				}
			})
		})
	}
}

// TestWait: a call is delayed until it fits, but not past its deadline.
func TestWait(t *testing.T) {
	client, _ := start(t, &service{}, grpclimit.Options{
		Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule(t, "api", policy.IP(), "20/s burst 1")}, MaxWait: 10 * time.Second,
	})
	want(t, "calls that wait", times(5, func() codes.Code { return call(within(t), client, &testgrpc.SimpleRequest{}) }), ok, ok, ok, ok, ok)
	slow, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{rule(t, "api", policy.IP(), "1/hour")}, MaxWait: time.Hour})
	short := func() codes.Code { return call(within(t), slow, &testgrpc.SimpleRequest{}) }
	want(t, "a call that would wait past its deadline", times(2, short), ok, denied)
}

// TestErrorOfNoCall: OnError always has a context to log under, even for an error about a call
// that has left.
func TestErrorOfNoCall(t *testing.T) {
	reported := make(chan grpclimit.Call, 10)
	ctx, leave := context.WithCancel(t.Context()) // without a deadline, as it would not wait past one
	defer leave()
	began := time.Now()
	// A store whose refunds fail, and whose delayed callers leave.
	store := &testkit.Store{Store: memstore.New(memstore.Options{Now: func() time.Time { return began }})}
	store.After = func(req sluice.Request, r sluice.Result) error {
		if req.Op == sluice.OpRefund {
			return errors.New("as asked")
		}
		if r.Decision.Delay > 0 {
			leave()
		}
		return nil
	}
	client, _ := start(t, &service{}, grpclimit.Options{
		Store: store, MaxWait: 10 * time.Second,
		Rules:   []policy.Rule{rule(t, "api", policy.IP(), "5/s burst 1")},
		OnError: func(c grpclimit.Call, _ error) { reported <- c },
	})
	want(t, "the first", []codes.Code{call(within(t), client, &testgrpc.SimpleRequest{})}, ok)
	want(t, "one that leaves", []codes.Code{call(ctx, client, &testgrpc.SimpleRequest{})}, codes.Canceled)
	select {
	case c := <-reported:
		if c.Context == nil {
			t.Error("reported without a context")
		}
	case <-within(t).Done():
		t.Error("no error said that an instant could not be given back")
	}
}
