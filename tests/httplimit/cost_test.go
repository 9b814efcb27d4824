// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// spent returns how much of a plan's first limit a key has used.
func spent(t testing.TB, store sluice.Store, p *sluice.Plan, key string) int64 {
	t.Helper()
	d, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	return p.Term(0).Full - d.Remaining
}

// The address of the requests that httptest makes.
const client = "192.0.2.1"

func TestCostBefore(t *testing.T) {
	header := policy.Cost{Of: policy.RequestHeader, Header: "x-cost", Units: 2, Most: 50}
	bytes := policy.Cost{Of: policy.RequestBytes}
	free := policy.Cost{Func: &policy.CostFunc{Before: func(policy.Attributes) (int64, error) { return 0, nil }}}
	cases := []struct {
		name   string
		cost   policy.Cost
		body   string
		lines  []string
		status int
		spent  int64
	}{
		{"default", policy.Cost{}, "", nil, 200, 1},
		{"units", policy.Cost{Units: 7}, "", nil, 200, 7},
		{"no units", free, "", nil, 200, 0},
		{"header", header, "", []string{"X-Cost: 20"}, 200, 20},
		{"header of nothing", header, "", []string{"X-Cost: 0"}, 200, 0},
		{"header missing", header, "", nil, 200, 2},
		{"header above the most", header, "", []string{"X-Cost: 51"}, 200, 50},
		{"header negative", header, "", []string{"X-Cost: -1"}, 200, 2},
		{"header of int64's extreme", header, "", []string{"X-Cost: 9223372036854775808"}, 200, 2},
		{"header not a number", header, "", []string{"X-Cost: ten"}, 200, 2},
		{"header empty", header, "", []string{"X-Cost: "}, 200, 2},
		{"header twice", header, "", []string{"X-Cost: 1", "X-Cost: 1"}, 200, 2},
		{"header that is not usable, and no estimate", policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 50}, "", []string{"X-Cost: ten"}, 200, 1},
		{"request bytes", bytes, "0123456789", nil, 200, 10},
		{"request bytes, no body", bytes, "", nil, 200, 0},
		{"request bytes, more than fit", bytes, strings.Repeat("x", 101), nil, 429, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store, limit := newStore(newClock()), limitOf(c.cost)
			h := newMiddleware(t, httplimit.Options{
				Store: store, Rules: []policy.Rule{costing(rule(t, "api", policy.IP(), limit), c.cost)},
			}).Wrap(http.HandlerFunc(echo))
			r := request(t, "/", c.lines...)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if got := spent(t, store, testkit.Plan(t, "api", limit), client); rec.Code != c.status || got != c.spent {
				t.Errorf("status %d, %d units; want %d, %d: %s", rec.Code, got, c.status, c.spent, rec.Body)
			}
		})
	}
}

// limitOf returns a limit of 100 units of a cost.
func limitOf(cost policy.Cost) string {
	if cost.Of == policy.RequestBytes || cost.Of == policy.ResponseBytes {
		return "100B/min sliding-log"
	}
	return "100/min sliding-log"
}

func TestCostAfter(t *testing.T) {
	body := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { write(t, w, strings.Repeat("x", n)) }
	}
	header := func(v string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Cost", v)
			w.WriteHeader(http.StatusOK)
		}
	}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	silent := func(http.ResponseWriter, *http.Request) {}
	bytes := policy.Cost{Of: policy.ResponseBytes}
	named := policy.Cost{Of: policy.ResponseHeader, Header: "x-cost", Units: 5, Most: 50}
	huge := policy.Cost{Func: &policy.CostFunc{After: func(policy.Attributes, *policy.Response) int64 { return 1<<63 - 1 }}}
	kept := policy.Cost{Func: &policy.CostFunc{
		Before: func(policy.Attributes) (int64, error) { return 7, nil },
		After:  func(policy.Attributes, *policy.Response) int64 { return -1 },
	}}
	unlessFailed := []policy.Status{{From: 100, To: 499}}
	unless200 := []policy.Status{policy.Class(1), {From: 201, To: 599}}
	unless204 := []policy.Status{{From: 100, To: 203}, {From: 205, To: 599}}
	cases := []struct {
		name    string
		method  string
		cost    policy.Cost
		counts  []policy.Status // nil: all
		handler http.HandlerFunc
		spent   int64
	}{
		{"response bytes", "GET", bytes, nil, body(40), 40},
		{"no response bytes: the estimate is refunded", "GET", bytes, nil, body(0), 0},
		{"response bytes that nobody wrote: the estimate stays", "GET", bytes, nil, silent, 1},
		{"response bytes to HEAD are not sent", "HEAD", bytes, nil, body(40), 0},
		{"response bytes above what is left", "GET", bytes, nil, body(140), 100},
		{"response header", "GET", named, nil, header("30"), 30},
		{"response header below the estimate", "GET", named, nil, header("2"), 2},
		{"response header equal to the estimate", "GET", named, nil, header("5"), 5},
		{"response header above the most", "GET", named, nil, header("51"), 50},
		{"response header that is no number", "GET", named, nil, header("lots"), 5},
		{"response header negative", "GET", named, nil, header("-3"), 5},
		{"no response header", "GET", named, nil, body(1), 5},
		{"a cost above every limit", "GET", huge, nil, body(0), 100},
		{"a cost that stays", "GET", kept, nil, body(0), 7},
		{"refund on a status", "GET", policy.Cost{Units: 9}, unlessFailed, status(503), 0},
		{"no refund on another", "GET", policy.Cost{Units: 9}, unlessFailed, status(404), 9},
		{"a body without a status is 200", "GET", policy.Cost{}, unless200, body(1), 0},
		{"no response is no 200", "GET", policy.Cost{}, unless200, silent, 1},
		{"informational answers are none", "GET", policy.Cost{}, unless204, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		}, 0},
		{"refund goes before cost", "GET", bytes, unlessFailed, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			write(t, w, "0123456789")
		}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store, limit := newStore(newClock()), limitOf(c.cost)
			r := costing(rule(t, "api", policy.IP(), limit), c.cost)
			if c.counts != nil {
				r = counting(r, c.counts...)
			}
			h := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{r}}).Wrap(c.handler)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, "/", nil))
			if got := spent(t, store, testkit.Plan(t, "api", limit), client); got != c.spent {
				t.Errorf("%d units spent, want %d", got, c.spent)
			}
		})
	}
}

// A refund after a moment, in which a bucket has refilled part of a unit, gives back the
// rest.
func TestRefundAsTimePasses(t *testing.T) {
	for _, limit := range []string{"2/min", "2/min burst 2 leaky-bucket nodelay", "2/min sliding-log", "2/min sliding-counter", "2/min fixed-window", "2/min sliding-histogram"} {
		t.Run(limit, func(t *testing.T) {
			c := newClock()
			h := newMiddleware(t, httplimit.Options{
				Store: newStore(c),
				Rules: []policy.Rule{counting(rule(t, "login", policy.IP(), limit), policy.Class(4))},
			}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c.Advance(time.Millisecond)
				w.WriteHeader(http.StatusOK)
			}))
			for i := range 10 {
				if rec := ask(t, h, "/"); rec.Code != 200 {
					t.Fatalf("request %d: status %d, want 200: every one before was refunded", i+1, rec.Code)
				}
			}
		})
	}
}

// Two rules, one of bytes and one of requests, are corrected independently.
func TestCostsOfSeveralRules(t *testing.T) {
	store := newStore(newClock())
	const requests, bytes, all = "10/min", "100B/min sliding-counter", "50/min"
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []policy.Rule{
			counting(rule(t, "r", policy.IP(), requests), policy.Class(4)),
			rule(t, "b", policy.IP(), bytes), // counts response bytes by default
			rule(t, "all", policy.Host(), all),
		},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(t, w, "0123456789") }))
	rec := ask(t, h, "http://example.com/")
	got := []int64{
		spent(t, store, testkit.Plan(t, "r", requests), client), spent(t, store, testkit.Plan(t, "b", bytes), client),
		spent(t, store, testkit.Plan(t, "all", all), "example.com"),
	}
	if want := []int64{0, 10, 1}; !slices.Equal(got, want) {
		t.Errorf("units spent %v, want %v", got, want)
	}
	if got, want := field(rec, "RateLimit-Policy"), `"r";q=10;w=60, "b";q=100;qu="content-bytes";w=60, "all";q=50;w=60`; got != want {
		t.Errorf("RateLimit-Policy %q, want %q", got, want)
	}
}
