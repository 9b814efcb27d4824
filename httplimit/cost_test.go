// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
)

// spent returns how much of a plan's first limit a key has used.
func spent(t testing.TB, store sluice.Store, p *sluice.Plan, key string) int64 {
	t.Helper()
	d, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	return p.Term(0).Full() - d.Remaining
}

// The address of the requests that httptest makes.
const client = "192.0.2.1"

func TestCostBefore(t *testing.T) {
	cases := []struct {
		name   string
		cost   httplimit.Cost
		body   string
		lines  []string
		status int
		spent  int64
	}{
		{"default", httplimit.Cost{}, "", nil, 200, 1},
		{"units", httplimit.Units(7), "", nil, 200, 7},
		{"no units", httplimit.Units(0), "", nil, 200, 0},
		{"header", httplimit.RequestHeader("x-cost", 1, 50), "", []string{"X-Cost: 20"}, 200, 20},
		{"header missing", httplimit.RequestHeader("x-cost", 2, 50), "", nil, 200, 2},
		{"header below the least", httplimit.RequestHeader("x-cost", 2, 50), "", []string{"X-Cost: 1"}, 400, 0},
		{"header above the most", httplimit.RequestHeader("x-cost", 2, 50), "", []string{"X-Cost: 51"}, 400, 0},
		{"header negative", httplimit.RequestHeader("x-cost", 0, 50), "", []string{"X-Cost: -1"}, 400, 0},
		{"header of int64's extreme", httplimit.RequestHeader("x-cost", 0, 50), "", []string{"X-Cost: 9223372036854775808"}, 400, 0},
		{"header not a number", httplimit.RequestHeader("x-cost", 0, 50), "", []string{"X-Cost: ten"}, 400, 0},
		{"header empty", httplimit.RequestHeader("x-cost", 0, 50), "", []string{"X-Cost: "}, 400, 0},
		{"header twice", httplimit.RequestHeader("x-cost", 0, 50), "", []string{"X-Cost: 1", "X-Cost: 1"}, 400, 0},
		{"request bytes", httplimit.RequestBytes(), "0123456789", nil, 200, 10},
		{"request bytes, no body", httplimit.RequestBytes(), "", nil, 200, 0},
		{"request bytes, more than fit", httplimit.RequestBytes(), strings.Repeat("x", 101), nil, 429, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store, plan := newStore(newClock()), compile(t, "api", "100/min sliding-log")
			h := newMiddleware(t, httplimit.Options{
				Store: store, Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByIP(), Cost: c.cost}},
			}).Wrap(ok)
			r := request(t, "/", c.lines...)
			if c.body != "" {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if got := spent(t, store, plan, client); rec.Code != c.status || got != c.spent {
				t.Errorf("status %d, %d units; want %d, %d: %s", rec.Code, got, c.status, c.spent, rec.Body)
			}
		})
	}
}

func TestCostAfter(t *testing.T) {
	body := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { write(t, w, strings.Repeat("x", n)) }
	}
	header := func(v string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", v) }
	}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	failed := func(status int) bool { return status >= 500 }
	cases := []struct {
		name    string
		method  string
		rule    httplimit.Rule
		handler http.HandlerFunc
		spent   int64
	}{
		{"response bytes", "GET", httplimit.Rule{Cost: httplimit.ResponseBytes()}, body(40), 40},
		{"no response bytes: the estimate is refunded", "GET", httplimit.Rule{Cost: httplimit.ResponseBytes()}, body(0), 0},
		{"response bytes to HEAD are not sent", "HEAD", httplimit.Rule{Cost: httplimit.ResponseBytes()}, body(40), 0},
		{"response bytes above what is left", "GET", httplimit.Rule{Cost: httplimit.ResponseBytes()}, body(140), 100},
		{"response header", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, header("30"), 30},
		{"response header below the estimate", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, header("2"), 2},
		{"response header equal to the estimate", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, header("5"), 5},
		{"response header that is no number", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, header("lots"), 5},
		{"response header negative", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, header("-3"), 5},
		{"no response header", "GET", httplimit.Rule{Cost: httplimit.ResponseHeader("x-cost", 5)}, body(1), 5},
		{"a cost above every limit", "GET", httplimit.Rule{Cost: httplimit.Cost{After: func(*http.Request, httplimit.Response) int64 { return 1<<63 - 1 }}}, body(0), 100},
		{"refund on a status", "GET", httplimit.Rule{Cost: httplimit.Units(9), RefundOn: failed}, status(503), 0},
		{"no refund on another", "GET", httplimit.Rule{Cost: httplimit.Units(9), RefundOn: failed}, status(404), 9},
		{"no status is 200", "GET", httplimit.Rule{RefundOn: func(s int) bool { return s == 200 }}, func(http.ResponseWriter, *http.Request) {}, 0},
		{"informational answers are none", "GET", httplimit.Rule{RefundOn: func(s int) bool { return s == 204 }}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		}, 0},
		{"refund goes before cost", "GET", httplimit.Rule{Cost: httplimit.ResponseBytes(), RefundOn: failed}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			write(t, w, "0123456789")
		}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store, plan := newStore(newClock()), compile(t, "api", "100/min sliding-log")
			c.rule.Plan, c.rule.Key = plan, httplimit.ByIP()
			h := newMiddleware(t, httplimit.Options{Store: store, Rules: []httplimit.Rule{c.rule}}).Wrap(c.handler)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, "/", nil))
			if got := spent(t, store, plan, client); got != c.spent {
				t.Errorf("%d units spent, want %d", got, c.spent)
			}
		})
	}
}

// A refund that comes a moment later, when a bucket has given back a part of a
// unit by itself, gives back the rest.
func TestRefundAsTimePasses(t *testing.T) {
	for _, limit := range []string{"2/min", "2/min burst 2 leaky-bucket nodelay", "2/min sliding-log", "2/min sliding-counter", "2/min fixed-window", "2/min sliding-histogram"} {
		t.Run(limit, func(t *testing.T) {
			c := newClock()
			h := newMiddleware(t, httplimit.Options{
				Store: newStore(c),
				Rules: []httplimit.Rule{{Plan: compile(t, "login", limit), Key: httplimit.ByIP(), RefundOn: func(s int) bool { return s == 200 }}},
			}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.pass(time.Millisecond) }))
			for i := range 10 {
				if rec := ask(t, h, "/"); rec.Code != 200 {
					t.Fatalf("request %d: status %d, want 200: every one before was refunded", i+1, rec.Code)
				}
			}
		})
	}
}

// Two rules, one of bytes and one of requests, are put right independently.
func TestCostsOfSeveralRules(t *testing.T) {
	store := newStore(newClock())
	requests, bytes, all := compile(t, "r", "r: 10/min"), compile(t, "b", "b: 100B/min sliding-counter"), compile(t, "all", "all: 50/min")
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []httplimit.Rule{
			{Plan: requests, Key: httplimit.ByIP(), RefundOn: func(s int) bool { return s == 200 }},
			{Plan: bytes, Key: httplimit.ByIP()}, // counts response bytes by default
			{Plan: all, Key: httplimit.ByHost()},
		},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(t, w, "0123456789") }))
	rec := ask(t, h, "http://example.com/")
	got := []int64{spent(t, store, requests, client), spent(t, store, bytes, client), spent(t, store, all, "example.com")}
	if want := []int64{0, 10, 1}; !slices.Equal(got, want) {
		t.Errorf("units spent %v, want %v", got, want)
	}
	if got, want := field(rec, "RateLimit-Policy"), `"r";q=10;w=60, "b";q=100;qu="content-bytes";w=60, "all";q=50;w=60`; got != want {
		t.Errorf("RateLimit-Policy %q, want %q", got, want)
	}
}

// A streamed body reaches the client while it is written; all of it is
// charged, and the request after the quota is spent is denied.
func TestStreamedResponseBytes(t *testing.T) {
	c := newClock()
	store, plan := newStore(c), compile(t, "video", "video: 100B/min sliding-log debt 100B")
	part := strings.Repeat("x", 30)
	received := make(chan struct{})
	h := newMiddleware(t, httplimit.Options{Store: store, Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByIP()}}}).
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 2 {
				write(t, w, part)
				w.(http.Flusher).Flush()
				<-received // goes on only when the client has this part
			}
			if _, err := io.Copy(w, strings.NewReader(part)); err != nil {
				t.Error(err)
			}
		}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	get := func() (status int, body string) {
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}()
		if resp.StatusCode == http.StatusOK {
			buf := make([]byte, len(part))
			for range 2 {
				if _, err := io.ReadFull(resp.Body, buf); err != nil {
					t.Fatal(err)
				}
				body += string(buf)
				received <- struct{}{}
			}
		}
		rest, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body + string(rest)
	}
	for i, want := range []int64{90, 180} { // the second was let in by 10 units, and is charged in full
		if status, body := get(); status != 200 || len(body) != 90 {
			t.Fatalf("request %d: status %d, %d bytes", i+1, status, len(body))
		}
		d, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: plan, Key: "127.0.0.1", Cost: 1}})
		if err != nil || d.Allowed != (want < 100) {
			t.Fatalf("after %d bytes: %+v, %v", want, d, err)
		}
	}
	if status, _ := get(); status != 429 {
		t.Errorf("the request after the quota was spent: status %d, want 429", status)
	}
	c.pass(time.Minute)
	if status, _ := get(); status != 200 {
		t.Errorf("a window later: status %d, want 200", status)
	}
}

// A body without Content-Length is charged by what was read of it.
func TestRequestBytesOfUnknownLength(t *testing.T) {
	store, plan := newStore(newClock()), compile(t, "upload", "up: 100B/min sliding-log")
	h := newMiddleware(t, httplimit.Options{
		Store: store, Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByIP(), Cost: httplimit.RequestBytes()}},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, io.LimitReader(r.Body, 60))
		write(t, w, fmt.Sprint(n, err))
	}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	var got []string
	for _, size := range []int{25, 90, 90, 90} {
		body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))} // hides its length
		resp, err := srv.Client().Post(srv.URL, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(resp.StatusCode, " ", spent(t, store, plan, "127.0.0.1")))
	}
	if want := []string{"200 25", "200 85", "200 100", "429 100"}; !slices.Equal(got, want) {
		t.Errorf("status and units: %q, want %q", got, want)
	}
}

// A handler that panics has cost what it wrote, and the panic goes on.
func TestPanickingHandlerIsSettled(t *testing.T) {
	store, bytes, requests := newStore(newClock()), compile(t, "b", "b: 100B/min"), compile(t, "r", "r: 10/min")
	var statuses []int
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []httplimit.Rule{
			{Plan: bytes, Key: httplimit.ByIP()},
			{Plan: requests, Key: httplimit.ByIP(), RefundOn: func(s int) bool { statuses = append(statuses, s); return false }},
		},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/started" {
			write(t, w, "0123456789")
		}
		panic(http.ErrAbortHandler)
	}))
	for _, path := range []string{"/started", "/"} {
		func() {
			defer func() {
				got := recover()
				if err, _ := got.(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("recovered %v", got)
				}
			}()
			ask(t, h, path)
		}()
	}
	if got := spent(t, store, bytes, client); got != 10 || !slices.Equal(statuses, []int{200, 500}) {
		t.Errorf("%d units, statuses %v; want 10, [200 500]", got, statuses)
	}
}

// What cannot be put right is reported; the client's answer is not changed.
func TestErrorsAfterTheResponseAreReported(t *testing.T) {
	store := &outage{Store: newStore(newClock())}
	var seen []error
	h := newMiddleware(t, httplimit.Options{
		Store:   store,
		Rules:   []httplimit.Rule{{Plan: compile(t, "b", "100B/min"), Key: httplimit.ByIP()}},
		OnError: func(_ *http.Request, err error) { seen = append(seen, err) },
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		store.down.Store(true)
		write(t, w, "0123456789")
	}))
	if rec := ask(t, h, "/"); rec.Code != 200 || rec.Body.Len() != 10 || len(seen) != 1 || !errors.Is(seen[0], errDown) {
		t.Errorf("status %d, %d bytes, errors %v", rec.Code, rec.Body.Len(), seen)
	}
}

// What a client that hangs up has had is charged: settling does not end with
// the request's context.
func TestSettlingOutlivesTheRequest(t *testing.T) {
	store, plan := &contextual{newStore(newClock())}, compile(t, "b", "100B/min")
	h := newMiddleware(t, httplimit.Options{
		Store: store, Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByIP()}},
		OnError: func(_ *http.Request, err error) { t.Error(err) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(t, w, "0123456789")
		cancel()
	})).ServeHTTP(httptest.NewRecorder(), request(t, "/").WithContext(ctx))
	if got := spent(t, store, plan, client); got != 10 {
		t.Errorf("%d units, want 10", got)
	}
}

// contextual fails where a store that is reached over a network would.
type contextual struct{ sluice.Store }

func (s *contextual) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := ctx.Err(); err != nil {
		return sluice.Decision{}, err
	}
	return s.Store.Take(ctx, req)
}
