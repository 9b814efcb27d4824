// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package connectlimit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// TestFailedLogins: six failing calls, of which three a minute may fail, in every protocol and
// kind of call, compressed or not. Successful calls are free.
func TestFailedLogins(t *testing.T) {
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	for protocol, opt := range protocols {
		for kind, call := range calls {
			for name, compression := range map[string]connect.ClientOption{"compressed": connect.WithSendGzip(), "plain": plain} {
				t.Run(protocol+", "+kind+", "+name, func(t *testing.T) {
					s := serve(t, limittest.Counting(t, "3/min", http.StatusUnauthorized, true))
					c := newCaller(t, s.URL, opt, compression)
					for range 5 {
						if err := call(c, "ok"); err != nil {
							t.Fatalf("succeeds: %v", err)
						}
					}
					var got []connect.Code
					for range 6 {
						got = append(got, connect.CodeOf(call(c, "unauthenticated")))
					}
					const failed, denied = connect.CodeUnauthenticated, connect.CodeResourceExhausted
					if want := []connect.Code{failed, failed, failed, denied, denied, denied}; !slices.Equal(got, want) {
						t.Errorf("six log-ins end in %v, want %v", got, want)
					}
				})
			}
		}
	}
}

// TestCodes: every code counts as the status that google.rpc.Code names, and a call whose code
// is not known always counts.
func TestCodes(t *testing.T) {
	statuses := map[string]int{
		"ok": 200, "invalid_argument": 400, "not_found": 404, "already_exists": 409, "permission_denied": 403,
		"resource_exhausted": 429, "failed_precondition": 400, "aborted": 409, "out_of_range": 400, "unimplemented": 501,
		"internal": 500, "unavailable": 503, "data_loss": 500, "unauthenticated": 401, "unknown": 500, "bug": 500,
	}
	const limit, unseen = "100/min", http.StatusTeapot
	statuses["canceled"], statuses["deadline_exceeded"] = unseen, unseen // they count under every rule
	for protocol, opt := range protocols {
		for kind, call := range calls {
			for say, status := range statuses {
				t.Run(protocol+", "+kind+", "+say, func(t *testing.T) {
					s := serve(t, limittest.Counting(t, limit, status, false))
					_ = call(newCaller(t, s.URL, opt), say) // its settlement reports the status
					s.Reach(t, limit, 1)
					if status == unseen {
						return
					}
					other := serve(t, limittest.Counting(t, limit, http.StatusTeapot, true))
					_ = call(newCaller(t, other.URL, opt), say) // as above
					other.Reach(t, limit, 0)
				})
			}
		}
	}
}

// TestDenials: each denial is an error in the call's protocol, with the details that clients
// need.
func TestDenials(t *testing.T) {
	closed := limittest.Rule(t, "1/min")
	closed.Failure = sluice.FailClosed
	success := closed // a success over HTTP, which must not end a call with success
	success.Answer = &policy.Answer{Status: http.StatusOK, ContentType: "application/json", Body: "{}"}
	claimed := policy.NewRule("api", policy.Claim("sub"), closed.Levels[0].Limits[0].Limit)
	for _, c := range []struct {
		name   string
		opts   httplimit.Options
		spend  bool
		code   connect.Code
		retry  time.Duration // 0: none
		quotas []string
		field  string
		says   string
	}{
		{"denied", httplimit.Options{Rules: []policy.Rule{closed}}, true, connect.CodeResourceExhausted, time.Minute, []string{"api"}, `"api";r=0;t=60`, `the quota of the limit "api" is used up`},
		{"denied by a success", httplimit.Options{Rules: []policy.Rule{success}}, true, connect.CodeResourceExhausted, time.Minute, []string{"api"}, `"api";r=0;t=60`, `the quota of the limit "api" is used up`},
		{"no key", httplimit.Options{Rules: []policy.Rule{policy.NewRule("api", policy.Header("X-User"), closed.Levels[0].Limits[0].Limit)}}, false, connect.CodeInvalidArgument, 0, nil, "", "X-User"},
		{"no token", httplimit.Options{
			Rules: []policy.Rule{claimed}, TokenRequired: true,
			Claims: func(*http.Request) (func(string) (string, error), error) { return nil, nil },
		}, false, connect.CodeUnauthenticated, 0, nil, "", "token"},
		{"not let in", httplimit.Options{Rules: []policy.Rule{closed}, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, false, connect.CodePermissionDenied, 0, nil, "", "network"},
		{"not decided", httplimit.Options{Rules: []policy.Rule{failing(t)}}, false, connect.CodeUnavailable, time.Second, nil, "", "retry later"},
	} {
		c.opts.OnError = func(*http.Request, error) {}
		for protocol, opt := range protocols {
			for kind, call := range calls {
				t.Run(c.name+", "+protocol+", "+kind, func(t *testing.T) {
					s := limittest.Serve(t, serving(), c.opts)
					caller := newCaller(t, s.URL, opt)
					if c.spend {
						if err := call(caller, "ok"); err != nil {
							t.Fatal(err)
						}
					}
					err, ok := errors.AsType[*connect.Error](call(caller, "ok"))
					if !ok || err.Code() != c.code || !strings.Contains(err.Message(), c.says) || strings.Contains(err.Message(), "secret") {
						t.Fatalf("got %v, want %v: %s", err, c.code, c.says)
					}
					retry, quotas := details(t, err)
					if retry != c.retry || !slices.Equal(quotas, c.quotas) {
						t.Errorf("retry after %v, %q; want %v, %q", retry, quotas, c.retry, c.quotas)
					}
				})
			}
		}
		t.Run(c.name+", fields", func(t *testing.T) {
			s := limittest.Serve(t, serving(), c.opts)
			for _, media := range []string{"application/proto", "application/grpc", "application/grpc-web+proto", "application/connect+proto"} {
				var got limittest.Answer
				for range 2 {
					got = s.Ask(t, http.MethodPost, "/test.v1.Logins/Unary", bytes.NewReader(nil), "Content-Type: "+media)
				}
				if (got.Header.Get("Retry-After") != "") != (c.retry > 0) || c.field != "" && got.Header.Get("Ratelimit") != c.field {
					t.Errorf("%s: %v", media, got.Header)
				}
			}
		})
	}
}

// TestTrailer: fields that gRPC reads in the trailer of a denial are in it once, and not also
// in the header.
func TestTrailer(t *testing.T) {
	s := limittest.Serve(t, serving(), httplimit.Options{Rules: []policy.Rule{limittest.Rule(t, "1/min")}})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(client.CloseIdleConnections)
	for _, denied := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/test.v1.Logins/Unary", bytes.NewReader(make([]byte, 5)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if !denied {
			continue
		}
		for name, want := range map[string][]string{"Grpc-Status": {"8"}, "Grpc-Retry-Pushback-Ms": {"60000"}} {
			if got := resp.Trailer[name]; !slices.Equal(got, want) || resp.Header[name] != nil {
				t.Errorf("%s: %q in the trailer, %q in the header; want %q in the trailer", name, got, resp.Header[name], want)
			}
		}
		if n := len(resp.Trailer["Grpc-Message"]); n != 1 || resp.Header["Grpc-Message"] != nil {
			t.Errorf("Grpc-Message: %d in the trailer, header %q", n, resp.Header["Grpc-Message"])
		}
	}
}

// TestGet: a GET of a method is answered as a call, and a GET of a page as a page.
func TestGet(t *testing.T) {
	s := serve(t, limittest.Rule(t, "1/min"))
	s.Get(t, "/bytes")
	for target, media := range map[string]string{
		"/test.v1.Logins/Unary?connect=v1&encoding=json&message=%22ok%22": "application/json",
		"/bytes": "application/problem+json",
	} {
		got := s.Ask(t, http.MethodGet, target, http.NoBody)
		isCall := strings.Contains(got.Body, `"code":"resource_exhausted"`)
		if got.Status != http.StatusTooManyRequests || got.Header.Get("Content-Type") != media || isCall != (media == "application/json") {
			t.Errorf("%s: got %d, %v, %s", target, got.Status, got.Header, got.Body)
		}
	}
}

// failing returns a rule whose function fails, with an error that clients may not read, and
// which then lets no call pass.
func failing(t *testing.T) policy.Rule {
	t.Helper()
	r := limittest.Rule(t, "1/min")
	r.Failure = sluice.FailClosed
	r.Cost = policy.Cost{Func: &policy.CostFunc{
		Before: func(policy.Attributes) (int64, error) { return 0, errors.New("secret") },
	}}
	return r
}

// details returns the texts of an error's details.
func details(t *testing.T, err *connect.Error) (retry time.Duration, quotas []string) {
	t.Helper()
	for _, d := range err.Details() {
		m, bad := d.Value()
		if bad != nil {
			t.Fatal(bad)
		}
		switch m := m.(type) {
		case *errdetails.RetryInfo:
			retry = m.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range m.Violations {
				quotas = append(quotas, v.Subject)
			}
		}
	}
	return retry, quotas
}

// TestStreams: a stream keeps its slot until it has ended.
func TestStreams(t *testing.T) {
	for protocol, opt := range protocols {
		for kind, call := range calls {
			t.Run(protocol+", "+kind, func(t *testing.T) {
				s := serve(t, limittest.OneAtATime())
				c := newCaller(t, s.URL, opt)
				for range 2 {
					ended := make(chan error)
					go func() { ended <- call(c, "wait") }()
					<-s.Started
					if err := call(c, "ok"); connect.CodeOf(err) != connect.CodeResourceExhausted {
						t.Errorf("beside one that runs: %v", err)
					}
					s.Release <- struct{}{}
					if err := <-ended; err != nil {
						t.Error(err)
					}
					testkit.Until(t, "a free slot", func() bool { return call(c, "ok") == nil })
				}
			})
		}
	}
}

// TestPanics: a call whose handler panics counts and frees its slot, whether Connect or net/http
// recovers.
func TestPanics(t *testing.T) {
	recovers := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error { return errors.New("recovered") })
	for name, start := range map[string]limittest.Start{"recovered": serving(recovers), "not recovered": serving()} {
		for protocol, opt := range protocols {
			for kind, call := range calls {
				t.Run(name+", "+protocol+", "+kind, func(t *testing.T) {
					s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{
						limittest.Counting(t, "3/min", http.StatusInternalServerError, false), limittest.OneAtATime(),
					}})
					c := newCaller(t, s.URL, opt)
					for n := range 3 {
						if err := call(c, "panic"); err == nil || connect.CodeOf(err) == connect.CodeResourceExhausted {
							t.Errorf("call %d: %v, want that it has panicked", n+1, err)
						}
						s.Reach(t, "3/min", int64(n)+1)
					}
					if err := call(c, "ok"); connect.CodeOf(err) != connect.CodeResourceExhausted {
						t.Errorf("after three: %v, want a denial", err)
					}
				})
			}
		}
	}
}

// TestClientLeaves: a client that cancels a call, or lets its time run out, has spent a try.
func TestClientLeaves(t *testing.T) {
	for protocol, opt := range protocols {
		for kind, call := range calls {
			for _, say := range []string{"gone", "gone, failed"} {
				t.Run(protocol+", "+kind+", "+say, func(t *testing.T) { leaves(t, opt, call, say) })
			}
		}
	}
}

func leaves(t *testing.T, opt connect.ClientOption, call func(*caller, string) error, say string) {
	t.Helper()
	s := serve(t, limittest.Counting(t, "3/min", http.StatusUnauthorized, false))
	c := newCaller(t, s.URL, opt)
	for n := range 3 {
		ctx, leave := context.WithCancel(t.Context())
		leaving := *c
		leaving.ctx = ctx
		left := make(chan error)
		go func() { left <- call(&leaving, say) }()
		<-s.Started
		leave()
		if err := <-left; err == nil {
			t.Error("the call has ended well")
		}
		s.Reach(t, "3/min", int64(n)+1)
	}
	if err := call(c, "ok"); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("after three: %v, want a denial", err)
	}
}
