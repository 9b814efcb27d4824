// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"fmt"
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
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// A request that one rule denies is charged under no rule.
func TestSeveralKeysAllOrNone(t *testing.T) {
	store := newStore(newClock())
	var last httplimit.Event
	mw := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []policy.Rule{
			rule(t, "per-ip", policy.IP(), "3/min"),
			rule(t, "per-user", policy.Query("userId"), "1/min"),
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
	peek, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: testkit.Plan(t, "per-user", "1/min"), Key: "u4", Cost: 1}})
	if err != nil || !peek.Allowed {
		t.Errorf("u4 was denied by its address, but charged itself: %+v, %v", peek, err)
	}
}

func TestMissingKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing policy.Missing
		want    []int // statuses of requests without, without, with a key, with it twice
		fields  string
	}{
		{"refused", policy.Refuse, []int{400, 400, 200, 400}, ""},
		{"shared", policy.Share, []int{200, 429, 200, 400}, `"all";q=9;w=1, "user";q=1;w=60`},
		{"skipped", policy.Skip, []int{200, 200, 200, 400}, `"all";q=9;w=1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			user := rule(t, "user", policy.Header("X-User"), "1/min")
			user.Levels[0].Missing = c.missing
			h := newMiddleware(t, httplimit.Options{
				Store: newStore(newClock()), Rules: []policy.Rule{rule(t, "all", policy.Host(), "9/s"), user},
			}).Wrap(ok)
			var got []int
			first := ask(t, h, "/")
			got = append(got, first.Code, ask(t, h, "/").Code, ask(t, h, "/", "X-User: u1").Code, ask(t, h, "/", "X-User: u1", "X-User: u1").Code)
			if !slices.Equal(got, c.want) {
				t.Errorf("statuses %v, want %v", got, c.want)
			}
			if got := field(first, "RateLimit-Policy"); got != c.fields {
				t.Errorf("RateLimit-Policy %q, want %q", got, c.fields)
			}
			if c.missing == policy.Refuse {
				p := readProblem(t, first)
				if p.Type != "about:blank" || p.Title != "Bad Request" || p.Detail != "header X-User is missing" || p.Violated != nil {
					t.Errorf("got %+v", p)
				}
			}
		})
	}
	t.Run("every rule skipped", func(t *testing.T) {
		var events []httplimit.Event
		user := rule(t, "user", policy.Header("X-User"), "1/min")
		user.Levels[0].Missing = policy.Skip
		h := newMiddleware(t, httplimit.Options{
			Store: newStore(newClock()), Rules: []policy.Rule{user},
			OnDecision: func(_ *http.Request, e httplimit.Event) { events = append(events, e) },
		}).Wrap(ok)
		for range 3 {
			if rec := ask(t, h, "/"); rec.Code != 200 || len(rec.Header()["RateLimit"]) != 0 {
				t.Errorf("status %d, fields %v", rec.Code, rec.Header())
			}
		}
		if len(events) != 3 {
			t.Errorf("%d decisions, want 3", len(events))
		}
		for _, e := range events {
			if e.Verdict != evaluate.Allowed || e.Limit != nil || e.Decision != (sluice.Decision{}) {
				t.Errorf("no rule applied, and got %+v", e)
			}
		}
	})
}

// A shadow rule denies nothing and adds nothing to answers. Its denials are reported, and
// requests without a usable key only as trials.
func TestShadow(t *testing.T) {
	type step struct {
		verdict  evaluate.VerdictKind
		violated string
		side     string // the error of the rule's result
	}
	var got []step
	c := newClock()
	user := rule(t, "user", policy.Header("X-User"), "u: 1/min", "q: 1/s burst 2 leaky-bucket")
	user.Shadow = true
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(c),
		Rules: []policy.Rule{user},
		OnDecision: func(_ *http.Request, e httplimit.Event) {
			s := step{verdict: e.Verdict, violated: strings.Join(e.Violated, " ")}
			for side := range e.Evaluated.Trials() {
				if side.Err != nil {
					s.side = side.Err.Error()
				}
			}
			got = append(got, s)
		},
	}).Wrap(ok)
	for i, lines := range [][]string{{"X-User: u1"}, {"X-User: u1"}, {"X-User: u1"}, nil} {
		rec := ask(t, h, "/", lines...)
		if rec.Code != 200 || len(rec.Header()["RateLimit"])+len(rec.Header()["Retry-After"]) != 0 {
			t.Errorf("request %d: status %d, fields %v", i+1, rec.Code, rec.Header())
		}
	}
	c.Advance(time.Minute) // what was shadowed is not charged
	ask(t, h, "/", "X-User: u1")
	want := []step{
		{verdict: evaluate.Allowed},
		{verdict: evaluate.Allowed, violated: "user/u"},
		{verdict: evaluate.Allowed, violated: "user/u"},
		{verdict: evaluate.Allowed, side: "header X-User is missing"},
		{verdict: evaluate.Allowed},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A shadow rule does not depend on other rules, nor they on it.
func TestShadowBesideOthers(t *testing.T) {
	var last httplimit.Event
	trial := rule(t, "trial", policy.IP(), "1/min")
	trial.Shadow = true
	h := newMiddleware(t, httplimit.Options{
		Store:      newStore(newClock()),
		Rules:      []policy.Rule{trial, rule(t, "api", policy.IP(), "2/min")},
		OnDecision: func(_ *http.Request, e httplimit.Event) { last = e },
	}).Wrap(ok)
	for i, want := range []struct {
		status   int
		verdict  evaluate.VerdictKind
		violated []string
	}{
		{200, evaluate.Allowed, nil},
		{200, evaluate.Allowed, []string{"trial"}},
		{429, evaluate.Denied, []string{"api"}},
	} {
		rec := ask(t, h, "/")
		if rec.Code != want.status || last.Verdict != want.verdict || !slices.Equal(last.Violated, want.violated) {
			t.Errorf("request %d: status %d, %v, violated %q; want %+v", i+1, rec.Code, last.Verdict, last.Violated, want)
		}
		if got, want := field(rec, "RateLimit-Policy"), `"api";q=2;w=60`; got != want {
			t.Errorf("request %d: RateLimit-Policy %q, want %q", i+1, got, want)
		}
	}
}

func TestSkip(t *testing.T) {
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []policy.Rule{rule(t, "api", policy.IP(), "1/min")},
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
	bad := costing(rule(t, "api", policy.Part{}, "a: 1/min"), policy.Cost{Of: policy.RequestHeader, Header: "X Cost", Most: 2})
	keys := rule(t, "api", policy.All(policy.Query(""), policy.Segment(0)), "a: 1/min")
	keys.Levels[0].Missing, keys.Failure = 9, 7
	mixed := costing(
		rule(t, "mixed", policy.IP(), "a: 1/min", "b: 1MB/min"),
		policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Units: -1, Most: 2},
	)
	none := costing(rule(t, "none", policy.IP()), policy.Cost{Of: policy.RequestHeader, Header: "X-Cost"})
	_, err := httplimit.New(httplimit.Options{
		Rules:   []policy.Rule{keys, bad, mixed, none},
		MaxWait: -time.Second, Fields: httplimit.XRateLimit | httplimit.XRateLimitEpoch,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Store is nil", `"api": Levels[0].By[0]: query lacks a name`, `"api": Levels[0].By[1]: "0" is not the number of a segment`, "Missing(9)",
		`"api": Levels[0].By[0]: is not a part of a key`, `"X Cost" is not a header field's name`, `"api" is the name of rule 1, too`,
		`"mixed": Levels[0].Limits[1]: counts bytes but the first limit requests`, "-1 units must be", `"none": Levels[0].Limits: no limit`, "most 0 must be",
		"Failure(7)", "MaxWait: -1s", "choose one",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	crowd := make([]policy.Rule, 17)
	for i := range crowd {
		crowd[i] = rule(t, fmt.Sprint("r", i), policy.IP(), "1/min")
	}
	for want, o := range map[string]httplimit.Options{
		"Rules: there are none":               {},
		"under 17 levels of rules at once":    {Rules: crowd},
		"Rules and Policy exclude each other": {Rules: crowd[:1], Policy: rules(t, "  - {name: a, limits: 1/min}")},
		"does not go with":                    {Fields: httplimit.NoFields | httplimit.Draft11},
		"without a meaning":                   {Fields: 1 << 7},
		"must be 0 to 1h":                     {MaxWait: 2 * time.Hour},
	} {
		o.Store = newStore(newClock())
		if _, err := httplimit.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	_, err = httplimit.Limit(nil, "", policy.Part{}, sluice.PerMinute(0))
	for _, want := range []string{"Store is nil", `"" must be 1 to 64`, "Quota: 0", "is not a part of a key"} {
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
		Rules: []policy.Rule{rule(t, "api", policy.IP(), "100/min sliding-log")},
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

// TestNil: a missing handler panics in Wrap, not in the first request.
func TestNil(t *testing.T) {
	mw := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []policy.Rule{rule(t, "ip", policy.IP(), "3/min")},
	})
	defer func() {
		if got, want := recover(), "httplimit: wrap: next is nil; pass the handler that is to be limited, such as an http.ServeMux"; got != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}()
	mw.Wrap(nil)
}
