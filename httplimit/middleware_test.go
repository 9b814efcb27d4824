// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
)

// A request that one rule denies is charged under none.
func TestSeveralKeysAllOrNone(t *testing.T) {
	store := newStore(newClock())
	var last httplimit.Event
	mw := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []httplimit.Rule{
			{Plan: compile(t, "ip", "per-ip: 3/min"), Key: httplimit.ByIP()},
			{Plan: compile(t, "user", "per-user: 1/min"), Key: httplimit.ByQuery("userId")},
		},
		OnDecision: func(_ *http.Request, e httplimit.Event) { last = e },
	})
	h := mw.Wrap(ok)
	for i, step := range []struct {
		user          string
		status        int
		limit, charge string
		violated      []string
	}{
		{"u1", 200, "per-user", "u1", nil},
		{"u1", 429, "per-user", "u1", []string{"per-user"}},
		{"u1", 429, "per-user", "u1", []string{"per-user"}},
		{"u2", 200, "per-user", "u2", nil},
		{"u3", 200, "per-ip", "192.0.2.1", nil},
		{"u4", 429, "per-ip", "192.0.2.1", []string{"per-ip"}},
		{"u1", 429, "per-user", "u1", []string{"per-user", "per-ip"}},
	} {
		rec := ask(t, h, "/?userId="+step.user)
		if rec.Code != step.status || last.Limit.Name != step.limit || last.Charge.Key != step.charge || !slices.Equal(last.Violated, step.violated) {
			t.Errorf("request %d: status %d, binding %s of %s, violated %v; want %+v", i+1, rec.Code, last.Limit.Name, last.Charge.Key, last.Violated, step)
		}
		if got, want := field(rec, "RateLimit-Policy"), `"per-ip";q=3;w=60, "per-user";q=1;w=60`; got != want {
			t.Errorf("request %d: RateLimit-Policy %q, want %q", i+1, got, want)
		}
	}
	peek, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: compile(t, "user", "per-user: 1/min"), Key: "u4", Cost: 1}})
	if err != nil || !peek.Allowed {
		t.Errorf("u4 was denied by its address, but charged itself: %+v, %v", peek, err)
	}
}

func TestMissingKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing httplimit.MissingKey
		want    []int // statuses of requests without, without, with a key, with it twice
		policy  string
	}{
		{"refused", httplimit.MissingRefused, []int{400, 400, 200, 400}, ""},
		{"shared", httplimit.MissingShared, []int{200, 429, 200, 400}, `"a";q=9;w=1, "u";q=1;w=60`},
		{"skipped", httplimit.MissingSkipped, []int{200, 200, 200, 400}, `"a";q=9;w=1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newMiddleware(t, httplimit.Options{
				Store: newStore(newClock()),
				Rules: []httplimit.Rule{
					{Plan: compile(t, "all", "a: 9/s"), Key: httplimit.ByHost()},
					{Plan: compile(t, "user", "u: 1/min"), Key: httplimit.ByHeader("X-User"), Missing: c.missing},
				},
			}).Wrap(ok)
			var got []int
			first := ask(t, h, "/")
			got = append(got, first.Code, ask(t, h, "/").Code, ask(t, h, "/", "X-User: u1").Code, ask(t, h, "/", "X-User: u1", "X-User: u1").Code)
			if !slices.Equal(got, c.want) {
				t.Errorf("statuses %v, want %v", got, c.want)
			}
			if got := field(first, "RateLimit-Policy"); got != c.policy {
				t.Errorf("RateLimit-Policy %q, want %q", got, c.policy)
			}
			if c.missing == httplimit.MissingRefused {
				p := readProblem(t, first)
				if p.Type != "about:blank" || p.Title != "Bad Request" || p.Detail != "header X-User is missing" || p.Violated != nil {
					t.Errorf("got %+v", p)
				}
			}
		})
	}
	t.Run("every rule skipped", func(t *testing.T) {
		decisions := 0
		h := newMiddleware(t, httplimit.Options{
			Store:      newStore(newClock()),
			Rules:      []httplimit.Rule{{Plan: compile(t, "user", "1/min"), Key: httplimit.ByHeader("X-User"), Missing: httplimit.MissingSkipped}},
			OnDecision: func(*http.Request, httplimit.Event) { decisions++ },
		}).Wrap(ok)
		for range 3 {
			if rec := ask(t, h, "/"); rec.Code != 200 || len(rec.Header()["RateLimit"]) != 0 {
				t.Errorf("status %d, fields %v", rec.Code, rec.Header())
			}
		}
		if decisions != 0 {
			t.Errorf("%d decisions", decisions)
		}
	})
}

func TestShadow(t *testing.T) {
	var verdicts []httplimit.Verdict
	c := newClock()
	h := newMiddleware(t, httplimit.Options{
		Store:      newStore(c),
		Rules:      []httplimit.Rule{{Plan: compile(t, "user", "u: 1/min", "q: 1/s burst 2 leaky-bucket"), Key: httplimit.ByHeader("X-User")}},
		Shadow:     true,
		OnDecision: func(_ *http.Request, e httplimit.Event) { verdicts = append(verdicts, e.Verdict) },
	}).Wrap(ok)
	for i, lines := range [][]string{{"X-User: u1"}, {"X-User: u1"}, {"X-User: u1"}, nil} {
		rec := ask(t, h, "/", lines...)
		if rec.Code != 200 || len(rec.Header()["RateLimit"])+len(rec.Header()["Retry-After"]) != 0 {
			t.Errorf("request %d: status %d, fields %v", i+1, rec.Code, rec.Header())
		}
	}
	c.pass(time.Minute) // what was shadowed is not charged
	ask(t, h, "/", "X-User: u1")
	want := []httplimit.Verdict{httplimit.Allowed, httplimit.Shadowed, httplimit.Shadowed, httplimit.Refused, httplimit.Allowed}
	if !slices.Equal(verdicts, want) {
		t.Errorf("verdicts %v, want %v", verdicts, want)
	}
}

func TestSkip(t *testing.T) {
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []httplimit.Rule{{Plan: compile(t, "api", "1/min"), Key: httplimit.ByIP()}},
		Skip:  func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	}).Wrap(ok)
	var got []int
	for _, path := range []string{"/", "/healthz", "/", "/healthz"} {
		got = append(got, ask(t, h, path).Code)
	}
	if want := []int{200, 200, 429, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	plan := compile(t, "api", "a: 1/min")
	mixed := compile(t, "mixed", "a: 1/min", "b: 1MB/min")
	_, err := httplimit.New(httplimit.Options{
		Rules: []httplimit.Rule{
			{Plan: plan, Key: httplimit.Join(httplimit.ByQuery(""), httplimit.ByPathSegment(0)), Missing: 9},
			{Plan: plan, Cost: httplimit.RequestHeader("X Cost", 1, 2)},
			{Plan: mixed, Key: httplimit.ByIP(), Cost: httplimit.ResponseHeader("X-Cost", -1)},
			{Key: httplimit.ByIP(), Cost: httplimit.RequestHeader("X-Cost", 3, 2)},
		},
		Failure: 7, MaxWait: -time.Second, Fields: httplimit.XRateLimit | httplimit.XRateLimitEpoch,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Store is nil", "rule 1: Key", "ByQuery: the name is empty", "ByPathSegment: 0", "Missing: 9",
		"rule 2: Key: httplimit: the key is empty", `"X Cost" is not a header field's name`, `rule 2: Plan: rule 1 has the scope "api" too`,
		`rule 2: Plan: rule 1 has a limit "a" too`, `"a" and "b" count requests and bytes`, "the estimate -1", "rule 4: Plan is nil", "range 3 to 2",
		"Failure: 7", "MaxWait: -1s", "choose one",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	for name, o := range map[string]httplimit.Options{
		"0 Rules":           {Store: newStore(newClock())},
		"17 Rules":          {Store: newStore(newClock()), Rules: make([]httplimit.Rule, 17)},
		"does not go with":  {Store: newStore(newClock()), Fields: httplimit.NoFields | httplimit.Draft11},
		"without a meaning": {Store: newStore(newClock()), Fields: 1 << 7},
		"must be 0 to 1h":   {Store: newStore(newClock()), MaxWait: 2 * time.Hour},
	} {
		if _, err := httplimit.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not in: %v", name, err)
		}
	}
	_, err = httplimit.Limit(nil, "", httplimit.Key{}, sluice.PerMinute(0))
	for _, want := range []string{"Store is nil", "scope of 0 bytes", "Quota: 0", "the key is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Limit: %q is not in:\n%v", want, err)
		}
	}
}

// Over real sockets and many connections exactly the quota passes.
func TestConcurrentRequests(t *testing.T) {
	const quota, clients, each = 100, 16, 10
	var reached atomic.Int64
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []httplimit.Rule{{Plan: compile(t, "api", "100/min sliding-log"), Key: httplimit.ByIP()}},
	}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	srv := httptest.NewServer(h)
	defer srv.Close()
	var passed, denied atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				resp, err := srv.Client().Get(srv.URL)
				if err != nil {
					t.Error(err)
					return
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
				switch resp.StatusCode {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != quota || reached.Load() != quota || denied.Load() != clients*each-quota {
		t.Errorf("%d passed, %d reached the handler, %d denied; want %d, %d, %d", passed.Load(), reached.Load(), denied.Load(), quota, quota, clients*each-quota)
	}
}

// TestNil: a handler that is forgotten is told where it is passed, not by the
// first request.
func TestNil(t *testing.T) {
	mw := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []httplimit.Rule{{Plan: compile(t, "ip", "3/min"), Key: httplimit.ByIP()}},
	})
	defer func() {
		if got, want := recover(), "httplimit: wrap: next is nil; pass the handler that is to be limited, such as an http.ServeMux"; got != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}()
	mw.Wrap(nil)
}
