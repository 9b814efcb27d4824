// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
)

// badClientAnswers are answers of a broken or hostile server.
func badClientAnswers() map[string]clientAnswer {
	answers := map[string]clientAnswer{
		"details without end": clientSays(status.FromProto(&spb.Status{
			Code:    int32(codes.ResourceExhausted),
			Details: slices.Repeat([]*anypb.Any{{TypeUrl: "a/b"}}, 10_000),
		}).Err()),
		"RetryInfo that is none": clientSays(status.FromProto(&spb.Status{
			Code:    int32(codes.ResourceExhausted),
			Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/google.rpc.RetryInfo", Value: []byte("\xff\xff\xff")}},
		}).Err()),
	}
	for name, d := range map[string]*durationpb.Duration{
		"a year":           durationpb.New(365 * 24 * time.Hour),
		"10,000 years":     {Seconds: 315_576_000_000},
		"overflow":         {Seconds: math.MaxInt64, Nanos: math.MaxInt32},
		"underflow":        {Seconds: math.MinInt64, Nanos: math.MinInt32},
		"negative":         durationpb.New(-time.Hour),
		"nanos of seconds": {Nanos: math.MaxInt32},
		"mixed signs":      {Seconds: 1 << 40, Nanos: -1},
	} {
		answers["RetryInfo: "+name] = clientSays(clientDetailed(codes.Unavailable, &errdetails.RetryInfo{RetryDelay: d}))
	}
	exhausted := status.Error(codes.ResourceExhausted, "denied")
	for _, text := range []string{
		"31536000000", "9223372036854775807", "99999999999999999999999", "-9223372036854775808", "NaN", "1e9", "Infinity", "0x10", "",
	} {
		answers["pushback: "+text] = clientSays(exhausted, "grpc-retry-pushback-ms", text)
		answers["retry-after: "+text] = clientSays(exhausted, "retry-after", text)
	}
	answers["pushbacks without end"] = clientSays(exhausted, slices.Repeat([]string{"grpc-retry-pushback-ms", "1000000000"}, 5000)...)
	for name, value := range map[string]string{
		"nothing left for 30 years": `"a";r=0;t=999999999`,
		"the largest t":             `"a";r=0;t=999999999999999`,
		"few left for 30 years":     `"a";r=3;t=999999999`,
		"items without end":         strings.Repeat(`"a";r=0;t=999999999, `, testkit.Steps(15_000, 100_000)) + `"b";r=0;t=1`,
		"thousands of items":        strings.Repeat(`"a";r=0;t=999999999, `, 5000) + `"b";r=0;t=1`,
		"an enormous name":          `"` + strings.Repeat("a", 100_000) + `";r=0;t=999999999`,
		"no list":                   `;;;`,
	} {
		answers["ratelimit: "+name] = clientStates("ratelimit", value)
		answers["ratelimit of a denial: "+name] = clientSays(clientDenial(codes.ResourceExhausted, time.Hour), "ratelimit", value)
	}
	answers["one a year"] = clientStates("ratelimit-policy", `"a";q=1;w=31536000`, "ratelimit", `"a";r=0;t=1`)
	answers["one a year, denied"] = clientSays(clientDenial(codes.ResourceExhausted, time.Second), "ratelimit-policy", `"a";q=1;w=31536000`, "ratelimit", `"a";r=0;t=1`)
	return answers
}

// TestClientMaxRetryAfter: whatever one answer says, a call is sent MaxRetryAfter later, and all
// are when the server answers correctly again.
func TestClientMaxRetryAfter(t *testing.T) {
	for name, bad := range badClientAnswers() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mended atomic.Bool
					s := newClientScript()
					s.answer = func(n int64) (metadata.MD, metadata.MD, error) {
						if mended.Load() {
							return nil, nil, nil
						}
						return bad(n)
					}
					conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{MaxRetryAfter: 5 * time.Minute, MaxRetries: -1}, true)
					call := func(ctx context.Context) error {
						if stream {
							_, err := clientDown(ctx, conn, 1)
							return err
						}
						return clientCall(ctx, conn)
					}
					for times := range int64(3) {
						if _ = call(t.Context()); s.calls.Load() <= times {
							t.Fatalf("call %d was not sent", times+1)
						}
						// Until MaxRetryAfter is over, a call that would have to wait
						// fails at once, with the duration.
						err := call(t.Context())
						if hold, held := errors.AsType[*grpclimit.WaitError](err); held && (hold.Wait <= 0 || hold.Wait > 5*time.Minute) {
							t.Fatalf("got %v; want at most 5m", err)
						}
						time.Sleep(5 * time.Minute)
					}
					mended.Store(true)
					for range 3 {
						if err := call(t.Context()); err != nil {
							t.Errorf("after all: got %v", err)
						}
					}
				})
			})
		}
	}
}

// TestClientWithoutAnswer: calls that fail before an answer delay no other call, and none
// stays in flight.
func TestClientWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClientScript(clientStates("ratelimit", `"a";r=0;t=10`))
		conn := clientServe(t, &s.clientServer, grpclimit.ClientOptions{}, true)
		if err := clientCall(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.latency = 2 * time.Second
		for range 5 { // each goes ahead blindly, as the one before has no answer
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			if err := clientCall(ctx, conn); status.Code(err) != codes.DeadlineExceeded || errors.As(err, new(*grpclimit.WaitError)) {
				t.Errorf("got %v; want the call sent, and %v", err, codes.DeadlineExceeded)
			}
			cancel()
		}
		var wg sync.WaitGroup
		for range 3 { // still one goes ahead, and the others wait for its answer
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				if err := clientCall(ctx, conn); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("got %v; want %v", err, codes.DeadlineExceeded)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // until the server also gives up
		if got := s.calls.Load(); got != 7 {
			t.Errorf("%d calls were sent; want 7", got)
		}
	})
}
