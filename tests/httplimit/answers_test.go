// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies"`
}

func readProblem(t testing.TB, rec *httptest.ResponseRecorder) problem {
	t.Helper()
	if got, want := rec.Header().Get("Content-Type"), "application/problem+json"; got != want {
		t.Errorf("Content-Type %q, want %q", got, want)
	}
	if got, want := rec.Header().Get("Cache-Control"), "no-store"; got != want {
		t.Errorf("Cache-Control %q, want %q", got, want)
	}
	var p problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v", rec.Body, err)
	}
	if p.Status != rec.Code {
		t.Errorf("the problem has status %d, the answer %d", p.Status, rec.Code)
	}
	return p
}

func TestAnswers(t *testing.T) {
	c := newClock()
	mw := newMiddleware(t, httplimit.Options{
		Store:  newStore(c),
		Rules:  []policy.Rule{rule(t, "api", policy.IP(), "short: 2/min", "long: 3/hour sliding-log")},
		Fields: httplimit.Draft11 | httplimit.XRateLimit,
	})
	h := mw.Wrap(ok)
	const policies = `"api/short";q=2;w=60, "api/long";q=3;w=3600`
	for i, step := range []struct {
		pass      time.Duration // before the request
		status    int
		rateLimit string
		retry     string
		x         [4]string // limit, remaining, reset, retry after
	}{
		{0, 200, `"api/short";r=1;t=30`, "", [4]string{"2", "1", "30", ""}},
		{0, 200, `"api/short";r=0;t=60`, "", [4]string{"2", "0", "60", ""}},
		{0, 429, `"api/short";r=0;t=30`, "30", [4]string{"2", "0", "60", "30"}},
		{29500 * time.Millisecond, 429, `"api/short";r=0;t=1`, "1", [4]string{"2", "0", "31", "1"}},
		{500 * time.Millisecond, 200, `"api/short";r=0;t=60`, "", [4]string{"2", "0", "60", ""}},
		{time.Minute, 429, `"api/long";r=0;t=3510`, "3510", [4]string{"3", "0", "3540", "3510"}},
	} {
		c.Advance(step.pass)
		rec := ask(t, h, "/")
		if rec.Code != step.status {
			t.Fatalf("request %d: status %d, want %d", i+1, rec.Code, step.status)
		}
		for _, f := range []struct{ name, want string }{
			{"RateLimit-Policy", policies},
			{"RateLimit", step.rateLimit},
			{"Retry-After", step.retry},
			{"X-RateLimit-Limit", step.x[0]},
			{"X-RateLimit-Remaining", step.x[1]},
			{"X-RateLimit-Reset", step.x[2]},
			{"X-Ratelimit-Retry-After", step.x[3]},
		} {
			if got := field(rec, f.name); got != f.want {
				t.Errorf("request %d: %s: %q, want %q", i+1, f.name, got, f.want)
			}
		}
	}
}

// TestXLimitIsWhatALimitHolds: the remaining units never exceed the limit.
func TestXLimitIsWhatALimitHolds(t *testing.T) {
	for _, c := range []struct{ limit, full, left string }{
		{"100/s burst 1000", "1000", "999"},
		{"100/s", "100", "99"},
		{"100/s leaky-bucket", "1", "0"},
		{"100/s leaky-bucket burst 7", "7", "6"},
		{"100/s burst 7 debt 50", "7", "6"},
		{"100/s fixed-window", "100", "99"},
		{"100/s sliding-log", "100", "99"},
		{"100/s sliding-counter", "100", "99"},
		{"100/s sliding-histogram", "100", "99"},
	} {
		for _, fields := range []httplimit.Fields{httplimit.XRateLimit, httplimit.XRateLimitEpoch} {
			h := newMiddleware(t, httplimit.Options{
				Store:  newStore(newClock()),
				Rules:  []policy.Rule{rule(t, "api", policy.IP(), c.limit)},
				Fields: fields,
			}).Wrap(ok)
			rec := ask(t, h, "/")
			if full, left := field(rec, "X-RateLimit-Limit"), field(rec, "X-RateLimit-Remaining"); full != c.full || left != c.left {
				t.Errorf("%s: limit %s, remaining %s; want %s, %s", c.limit, full, left, c.full, c.left)
			}
		}
	}
}

func TestProblem(t *testing.T) {
	c := newClock()
	mw := newMiddleware(t, httplimit.Options{
		Store: newStore(c),
		Rules: []policy.Rule{costing(
			rule(t, "api", policy.IP(), "a: 2/min", "b: 2/hour", "c: 100/s"),
			policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 1000},
		)},
	})
	h := mw.Wrap(ok)

	rec := ask(t, h, "/", "X-Cost: 200")
	p := readProblem(t, rec)
	want := problem{
		Type: "https://iana.org/assignments/http-problem-types#quota-exceeded", Title: "Quota exceeded", Status: 429,
		Detail:   `this request costs 200 requests, which is more than the limit "api/a" can ever allow; send a smaller one`,
		Violated: []string{"api/a", "api/b", "api/c"},
	}
	if !equalProblems(p, want) {
		t.Errorf("more than can ever fit: got %+v, want %+v", p, want)
	}
	if got := field(rec, "Retry-After"); got != "" {
		t.Errorf("more than can ever fit: Retry-After %q", got)
	}

	ask(t, h, "/", "X-Cost: 2")
	p = readProblem(t, ask(t, h, "/"))
	want.Detail = `the quota of the limit "api/b" is used up; retry after 1800 s`
	want.Violated = []string{"api/b", "api/a"} // the one that denies for longest first
	if !equalProblems(p, want) {
		t.Errorf("used up: got %+v, want %+v", p, want)
	}
}

// Fields that an outer handler has set for another body do not stay, and adding to our fields
// does not change another response.
func TestProblemReplacesAnotherAnswersFields(t *testing.T) {
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []policy.Rule{rule(t, "api", policy.Header("X-User"), "1/min")},
	}).Wrap(ok)
	rec := httptest.NewRecorder()
	for name, value := range map[string]string{"Content-Length": "5", "Content-Encoding": "gzip", "Etag": `"x"`, "Last-Modified": "Sat, 21 Nov 2026 08:00:00 GMT"} {
		rec.Header().Set(name, value)
	}
	h.ServeHTTP(rec, request(t, "/"))
	rec.Header().Add("Content-Type", "text/plain")
	if got := len(rec.Header()); got != 2 || field(rec, "Cache-Control") != "no-store" {
		t.Errorf("got the fields %v, want Content-Type and Cache-Control", rec.Header())
	}
}

func equalProblems(a, b problem) bool {
	return a.Type == b.Type && a.Title == b.Title && a.Status == b.Status && a.Detail == b.Detail && slices.Equal(a.Violated, b.Violated)
}

func TestRefuseWritesTheAnswer(t *testing.T) {
	h := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []policy.Rule{rule(t, "api", policy.Query("userId"), "a: 1/min")},
		Refuse: func(w http.ResponseWriter, r *http.Request, e httplimit.Event) {
			w.WriteHeader(e.Status)
			write(t, w, fmt.Sprintf("%s %v %s %v %v", r.URL.Path, e.Verdict, e.Charge.Key, e.Decision.RetryAfter, e.Err))
		},
	}).Wrap(ok)
	ask(t, h, "/x?userId=u1")
	rec := ask(t, h, "/x?userId=u1")
	if got, want := rec.Body.String(), "/x denied u1 1m0s <nil>"; rec.Code != 429 || got != want || field(rec, "Retry-After") != "60" {
		t.Errorf("got %d %q, %v, want %q", rec.Code, got, rec.Header(), want)
	}
	rec = ask(t, h, "/x")
	if got, want := rec.Body.String(), "/x refused  0s query userId is missing"; rec.Code != 400 || got != want {
		t.Errorf("got %d %q, want %q", rec.Code, got, want)
	}
}

// TestStatusOfRule: a denial has the status of its rule, by a limit or by requests in flight.
func TestStatusOfRule(t *testing.T) {
	r := rule(t, "api", policy.IP(), "1/min")
	r.Status = http.StatusServiceUnavailable
	crowd := policy.Rule{Name: "crowd", Status: http.StatusTeapot, Levels: []policy.Level{{InFlight: &sluice.SlotLimit{Cap: 1}}}}
	mw := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r, crowd}})
	first := mw.Decide(request(t, "/"))
	if got := mw.Decide(request(t, "/")).Event().Status; got != http.StatusTeapot {
		t.Errorf("beside one in flight: %d", got)
	}
	first.Settle(policy.Response{Status: http.StatusOK})
	if got := mw.Decide(request(t, "/")).Event().Status; got != http.StatusServiceUnavailable {
		t.Errorf("a second: %d", got)
	}
}

// TestFaultIsReported: OnDecision receives requests that servers read differently, and a
// client that is not admitted does not learn of the fault.
func TestFaultIsReported(t *testing.T) {
	var reported []httplimit.Event
	mw := newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()), Rules: []policy.Rule{rule(t, "api", policy.IP(), "9/min")}, Deny: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		OnDecision: func(_ *http.Request, e httplimit.Event) { reported = append(reported, e) },
	})
	for _, c := range []struct {
		remote string
		status int
	}{{"192.0.2.1:1", http.StatusBadRequest}, {"203.0.113.1:1", http.StatusForbidden}} {
		r := request(t, "/")
		r.URL.Opaque, r.RemoteAddr, reported = "x", c.remote, nil
		w := httptest.NewRecorder()
		mw.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != c.status || len(reported) != 1 || reported[0].Verdict != evaluate.Refused || reported[0].Status != c.status || reported[0].Evaluated != nil {
			t.Errorf("%s: %d, reported %+v; want %d", c.remote, w.Code, reported, c.status)
		}
	}
}
