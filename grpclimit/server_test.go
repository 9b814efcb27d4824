// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestDenial: a denial has its reason and the time to retry in every form that clients read.
func TestDenial(t *testing.T) {
	client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{rule(t, "api", policy.IP(), "2/min", "100/hour")}})
	ctx := within(t)
	for range 2 {
		if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	var trailer metadata.MD
	_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
	want(t, "third", []codes.Code{codeOf(err)}, denied)
	if !strings.Contains(err.Error(), `the quota of the limit "api/token-bucket.min" is used up; retry after 30 s`) {
		t.Errorf("says %v", err)
	}
	retry, quota := detailsOf(err)
	if got := retry.GetRetryDelay().AsDuration(); got != 30*time.Second {
		t.Errorf("RetryInfo of %v, want 30s", got)
	}
	if v := quota.GetViolations(); len(v) != 1 || v[0].GetQuotaId() != "api/token-bucket.min" || v[0].GetSubject() != v[0].GetQuotaId() || v[0].GetQuotaValue() != 2 || v[0].GetQuotaMetric() != "requests" {
		t.Errorf("QuotaFailure %v", quota)
	}
	for key, value := range map[string]string{
		"grpc-retry-pushback-ms": "30000",
		"ratelimit":              `"api/token-bucket.min";r=0;t=30`,
		"ratelimit-policy":       `"api/token-bucket.min";q=2;w=60, "api/token-bucket.hour";q=100;w=3600`,
	} {
		if got := strings.Join(trailer.Get(key), "|"); got != value {
			t.Errorf("trailer %s: %q, want %q", key, got, value)
		}
	}
}

// TestNeverFits: a request that never fits gets no time to retry.
func TestNeverFits(t *testing.T) {
	r := rule(t, "api", policy.IP(), "2/min")
	r.Cost.Units = 3
	client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{r}})
	var trailer metadata.MD
	_, err := client.UnaryCall(within(t), &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
	retry, quota := detailsOf(err)
	if codeOf(err) != denied || retry != nil || quota == nil || strings.Join(trailer.Get("grpc-retry-pushback-ms"), "") != "-1" {
		t.Errorf("got %v, RetryInfo %v, QuotaFailure %v, trailer %v", err, retry, quota, trailer)
	}
}

// TestKeys covers the keys that calls are charged to.
func TestKeys(t *testing.T) {
	claims := func(ctx context.Context) (func(string) (string, error), error) {
		md, _ := metadata.FromIncomingContext(ctx)
		switch token := strings.Join(md.Get("authorization"), ""); {
		case token == "":
			return nil, nil
		case strings.HasPrefix(token, "good "):
			return func(name string) (string, error) { return name + " of " + token, nil }, nil
		default:
			return nil, &policy.TokenError{Problem: "the token has expired"}
		}
	}
	size := func(c grpclimit.Call) (string, error) {
		m, _ := c.Message.(*testgrpc.SimpleRequest)
		return fmt.Sprint(m.GetResponseSize()), nil
	}
	proxy := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	type md = []string
	for _, c := range []struct {
		name    string
		key     policy.Part
		options grpclimit.Options
		calls   []md
		want    []codes.Code
	}{
		{"metadata", policy.Header("x-user"), grpclimit.Options{}, []md{{"x-user", "a"}, {"X-User", "b"}, {"x-user", "a"}}, []codes.Code{ok, ok, denied}},
		{"metadata twice", policy.Header("x-user"), grpclimit.Options{}, []md{{"x-user", "a", "x-user", "b"}, {}}, []codes.Code{codes.InvalidArgument, codes.InvalidArgument}},
		{"peer", policy.IP(), grpclimit.Options{}, []md{{"x-forwarded-for", "192.0.2.1"}, {"x-forwarded-for", "192.0.2.2"}}, []codes.Code{ok, denied}},
		{"peer through a proxy", policy.IP(), grpclimit.Options{Trusted: proxy}, []md{{"x-forwarded-for", "192.0.2.1"}, {"x-forwarded-for", "192.0.2.2"}, {"x-forwarded-for", "192.0.2.9, 192.0.2.1"}}, []codes.Code{ok, ok, denied}},
		{"peer through a proxy of its own field", policy.IP(), grpclimit.Options{Trusted: proxy, ClientHeader: "X-Real-IP"}, []md{{"x-real-ip", "192.0.2.1"}, {"x-real-ip", "192.0.2.2"}}, []codes.Code{ok, ok}},
		{"claim", policy.Claim("sub"), grpclimit.Options{Claims: claims}, []md{{"authorization", "good a"}, {"authorization", "good b"}, {"authorization", "good a"}, {"authorization", "bad"}}, []codes.Code{ok, ok, denied, codes.Unauthenticated}},
		{"claim of no token", policy.First(policy.Claim("sub"), policy.IP()), grpclimit.Options{Claims: claims, TokenRequired: true}, []md{{}, {"authorization", "good a"}}, []codes.Code{codes.Unauthenticated, ok}},
		{"claim that nobody can verify", policy.First(policy.Claim("sub"), policy.IP()), grpclimit.Options{TokenRequired: true}, []md{{}}, []codes.Code{codes.Unauthenticated}},
		{"message", grpclimit.KeyFunc("size", size), grpclimit.Options{}, []md{{"size", "1"}, {"size", "2"}, {"size", "1"}}, []codes.Code{ok, ok, denied}},
		{"host", policy.Host(), grpclimit.Options{}, []md{{}, {}}, []codes.Code{ok, denied}},
		{"network", policy.IP(), grpclimit.Options{Deny: proxy}, []md{{}}, []codes.Code{codes.PermissionDenied}},
		{"missing", policy.Header("x-user"), grpclimit.Options{}, []md{{}}, []codes.Code{codes.InvalidArgument}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Rules = []policy.Rule{rule(t, "api", c.key, "1/min")}
			client, _ := start(t, &service{}, c.options)
			var got []codes.Code
			for _, pairs := range c.calls {
				req := &testgrpc.SimpleRequest{}
				if len(pairs) == 2 && pairs[0] == "size" {
					req.ResponseSize = int32(pairs[1][0] - '0')
				}
				got = append(got, call(as(within(t), pairs...), client, req))
			}
			want(t, "calls", got, c.want...)
		})
	}
}

// TestMethods covers a key of the method, and rules for some methods only.
func TestMethods(t *testing.T) {
	byMethod := rule(t, "each", grpclimit.ByMethod(), "2/min")
	one := rule(t, "unary", policy.IP(), "1/min")
	one.Match.Paths = []string{"/grpc.testing.TestService/UnaryCall"}
	client, _ := start(t, &service{}, grpclimit.Options{Rules: []policy.Rule{byMethod, one}})
	ctx := within(t)
	empty := func() codes.Code { _, err := client.EmptyCall(ctx, &testgrpc.Empty{}); return codeOf(err) }
	want(t, "UnaryCall", times(2, func() codes.Code { return call(ctx, client, &testgrpc.SimpleRequest{}) }), ok, denied)
	want(t, "EmptyCall", times(3, empty), ok, ok, denied)
}

// TestCosts covers the costs of calls, before and after they run.
func TestCosts(t *testing.T) {
	named := &service{unary: func(ctx context.Context, req *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		cost := metadata.Pairs("x-cost", fmt.Sprint(req.GetResponseSize()))
		if req.GetFillUsername() {
			return &testgrpc.SimpleResponse{}, grpc.SetTrailer(ctx, cost)
		}
		return &testgrpc.SimpleResponse{}, errors.Join(grpc.SetHeader(ctx, cost), grpc.SetSendCompressor(ctx, "gzip"))
	}}
	bySize := policy.Cost{Func: &policy.CostFunc{Before: func(a policy.Attributes) (int64, error) {
		m, _ := grpclimit.CallOf(a).Message.(*testgrpc.SimpleRequest)
		return int64(m.GetResponseSize()), nil
	}}}
	for _, c := range []struct {
		name  string
		limit string
		cost  policy.Cost
		of    *service
		reqs  []*testgrpc.SimpleRequest
		want  []codes.Code
	}{
		{"units", "10/min", policy.Cost{Units: 4}, &service{}, []*testgrpc.SimpleRequest{{}, {}, {}}, []codes.Code{ok, ok, denied}},
		{"of metadata", "10/min", policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 100}, &service{}, []*testgrpc.SimpleRequest{{}, {}, {}}, []codes.Code{ok, ok, denied}},
		{"of the message", "10/min", bySize, &service{}, []*testgrpc.SimpleRequest{{ResponseSize: 9}, {ResponseSize: 2}, {ResponseSize: 1}}, []codes.Code{ok, denied, ok}},
		{"bytes that come", "1000B/min", policy.Cost{Of: policy.RequestBytes}, &service{}, []*testgrpc.SimpleRequest{{Payload: payload(900)}, {Payload: payload(900)}, {}}, []codes.Code{ok, denied, ok}},
		{"bytes that go", "1000B/min debt 2000", policy.Cost{Of: policy.ResponseBytes}, &service{}, []*testgrpc.SimpleRequest{{ResponseSize: 1500}, {}}, []codes.Code{ok, denied}},
		{"header", "10/min debt 100", policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 100}, named, []*testgrpc.SimpleRequest{{ResponseSize: 20}, {}}, []codes.Code{ok, denied}},
		{"trailer", "10/min debt 100", policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 100}, named, []*testgrpc.SimpleRequest{{ResponseSize: 20, FillUsername: true}, {}}, []codes.Code{ok, denied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rule(t, "api", policy.IP(), c.limit)
			r.Cost = c.cost
			client, _ := start(t, c.of, grpclimit.Options{Rules: []policy.Rule{r}})
			var got []codes.Code
			for _, req := range c.reqs {
				got = append(got, call(as(within(t), "x-cost", "4"), client, req))
			}
			want(t, "calls", got, c.want...)
		})
	}
}

// TestStore covers the outcome of calls while the store fails or the queue is full.
func TestStore(t *testing.T) {
	broken := errors.New("the store is broken")
	for _, c := range []struct {
		name    string
		failure sluice.Failure
		want    codes.Code
	}{
		{"open", sluice.FailOpen, ok},
		{"closed", sluice.FailClosed, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rule(t, "api", policy.IP(), "1/min")
			r.Failure = c.failure
			var reported []error
			client, _ := start(t, &service{}, grpclimit.Options{
				Store: testkit.Failing(broken), Rules: []policy.Rule{r},
				OnError: func(c grpclimit.Call, err error) {
					reported = append(reported, fmt.Errorf("%s: %w", c.FullMethod, err))
				},
			})
			var trailer metadata.MD
			_, err := client.UnaryCall(within(t), &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
			want(t, "call", []codes.Code{codeOf(err)}, c.want)
			if len(reported) != 1 || !errors.Is(reported[0], broken) || !strings.HasPrefix(reported[0].Error(), "/grpc.testing.TestService/UnaryCall: ") {
				t.Errorf("reported %v", reported)
			}
			if retry, _ := detailsOf(err); c.want != ok && (retry.GetRetryDelay().AsDuration() != time.Second || trailer.Get("grpc-retry-pushback-ms")[0] != "1000") {
				t.Errorf("RetryInfo %v, trailer %v, want a second", retry, trailer)
			}
			if err != nil && strings.Contains(err.Error(), "broken") {
				t.Errorf("the client reads %v", err)
			}
		})
	}
}

// TestFields: the remaining units are reported with every call, if the options say so, and
// OnDecision is called once for each.
func TestFields(t *testing.T) {
	var reported []string
	client, _ := start(t, &service{}, grpclimit.Options{
		Rules: []policy.Rule{rule(t, "api", policy.IP(), "3/min")}, Fields: true,
		OnDecision: func(c grpclimit.Call, e evaluate.Event) {
			reported = append(reported, fmt.Sprintf("%s %v %d", c.FullMethod, e.Verdict, e.Decision.Remaining))
		},
	})
	var header metadata.MD
	if _, err := client.UnaryCall(within(t), &testgrpc.SimpleRequest{}, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(header.Get("ratelimit"), header.Get("ratelimit-policy")); got != `["api";r=2;t=20] ["api";q=3;w=60]` {
		t.Errorf("header %s", got)
	}
	stream, err := client.FullDuplexCall(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if header, err = stream.Header(); err != nil || fmt.Sprint(header.Get("ratelimit")) != `["api";r=1;t=40]` {
		t.Errorf("the stream's header %v, %v", header, err)
	}
	if got := strings.Join(reported, ", "); got != "/grpc.testing.TestService/UnaryCall allowed 2, /grpc.testing.TestService/FullDuplexCall allowed 1" {
		t.Errorf("reported %s", got)
	}
}

// TestFaults: all faults of the options are reported at once, with remedies.
func TestFaults(t *testing.T) {
	shaping := rule(t, "slow", policy.IP(), "1MB/s")
	shaping.Shape = true
	waiting := rule(t, "logins", policy.IP(), "1/min")
	waiting.When = &policy.When{Status: grpclimit.Statuses(codes.Unauthenticated)}
	oneInFlight := policy.Rule{Name: "crowd", Levels: []policy.Level{{By: []policy.Part{policy.IP()}, InFlight: &sluice.SlotLimit{Name: "crowd", Cap: 1}}}}
	_, err := grpclimit.New(grpclimit.Options{
		Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{shaping}, Messages: []policy.Rule{waiting}, Replies: []policy.Rule{oneInFlight, {}},
	})
	for _, part := range []string{
		`grpclimit: calls: rule "slow" slows bodies down`,
		`grpclimit: Messages: rule "logins" waits for a response`,
		`grpclimit: Replies: Rules: `,
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if _, err := grpclimit.New(grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "Store is nil") {
		t.Errorf("without a store: %v", err)
	}
}
