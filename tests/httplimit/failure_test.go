// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/remote"
)

var (
	errDown = errors.New("connection refused to secret-host:6379")
	outage  = testkit.Failing(errDown).Before
)

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		name    string
		failure sluice.Failure
		status  int
		verdict evaluate.VerdictKind
	}{
		{"open is the default", sluice.Failure(0), 200, evaluate.FailedOpen},
		{"closed", sluice.FailClosed, 503, evaluate.FailedClosed},
		{"local, and there is none", sluice.FailLocal, 503, evaluate.FailedClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &testkit.Store{Store: newStore(newClock()), Before: outage}
			var seen []error
			var verdict evaluate.VerdictKind
			api := rule(t, "api", policy.IP(), "1B/min")
			api.Failure = c.failure
			h := newMiddleware(t, httplimit.Options{
				Store: store, Rules: []policy.Rule{api},
				OnError:    func(_ *http.Request, err error) { seen = append(seen, err) },
				OnDecision: func(_ *http.Request, e httplimit.Event) { verdict = e.Verdict },
			}).Wrap(ok)
			rec := ask(t, h, "/")
			if rec.Code != c.status || verdict != c.verdict || len(seen) != 1 || !errors.Is(seen[0], errDown) {
				t.Errorf("status %d, %v, errors %v; want %d, %v, %v", rec.Code, verdict, seen, c.status, c.verdict, errDown)
			}
			if strings.Contains(rec.Body.String(), "secret-host") {
				t.Errorf("the client sees an error of the store: %s", rec.Body)
			}
			store.Before = nil
			if rec = ask(t, h, "/"); rec.Code != 200 || verdict != evaluate.Allowed {
				t.Errorf("once the store is available again: status %d, %v", rec.Code, verdict)
			}
		})
	}
}

// TestUnavailableSaysWhenToRetry: after the time in the store's error, rounded up to whole
// seconds, or after a second.
func TestUnavailableSaysWhenToRetry(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an error that does not say", errDown, "1"},
		{"less than a second", &remote.UnavailableError{RetryAfter: 500 * time.Millisecond, Err: errDown}, "1"},
		{"more", &remote.UnavailableError{RetryAfter: 7*time.Second + 1, Err: errDown}, "8"},
		{"wrapped", fmt.Errorf("a: %w", errors.Join(errDown, &remote.UnavailableError{RetryAfter: 3 * time.Second, Err: errDown})), "3"},
		{"nothing", &remote.UnavailableError{Err: errDown}, "1"},
		{"negative", &remote.UnavailableError{RetryAfter: -time.Hour, Err: errDown}, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := rule(t, "api", policy.IP(), "1/min")
			api.Failure = sluice.FailClosed
			o := httplimit.Options{
				Store:   testkit.Failing(c.err),
				Rules:   []policy.Rule{api},
				OnError: func(*http.Request, error) {},
			}
			rec := ask(t, newMiddleware(t, o).Wrap(ok), "/")
			if got := field(rec, "Retry-After"); rec.Code != 503 || got != c.want {
				t.Errorf("status %d, Retry-After %q; want 503, %s", rec.Code, got, c.want)
			}
			o.Refuse = func(w http.ResponseWriter, _ *http.Request, e httplimit.Event) { w.WriteHeader(e.Status) }
			if got := field(ask(t, newMiddleware(t, o).Wrap(ok), "/"), "Retry-After"); got != c.want {
				t.Errorf("an answer of its own: Retry-After %q, want %s", got, c.want)
			}
			o.Rules[0].Failure = sluice.FailOpen
			if rec := ask(t, newMiddleware(t, o).Wrap(ok), "/"); rec.Code != 200 || field(rec, "Retry-After") != "" {
				t.Errorf("fail open: status %d, Retry-After %q; want 200 and none", rec.Code, field(rec, "Retry-After"))
			}
		})
	}
}

// A client cannot evade a limit with a request that no Store decides.
func TestWhatAStoreRefusesIsNotFailOpen(t *testing.T) {
	for _, cost := range []int64{-1, sluice.MaxQuota + 1} {
		h := newMiddleware(t, httplimit.Options{
			Store: newStore(newClock()),
			Rules: []policy.Rule{costing(rule(t, "api", policy.IP(), "1/min"), policy.Cost{
				Func: &policy.CostFunc{Before: func(policy.Attributes) (int64, error) { return cost, nil }},
			})},
			OnError: func(_ *http.Request, err error) { t.Errorf("reported as the store's error: %v", err) },
		}).Wrap(ok)
		if rec := ask(t, h, "/"); rec.Code != 400 {
			t.Errorf("cost %d: status %d, want 400", cost, rec.Code)
		}
	}
}

// A store that gives up because the client left has not failed, and no client would read the
// handler's response.
func TestClientThatIsGone(t *testing.T) {
	var events []httplimit.Event
	h := newMiddleware(t, httplimit.Options{
		Store:      contextual(newStore(newClock())),
		Rules:      []policy.Rule{rule(t, "api", policy.IP(), "1/min")},
		OnError:    func(_ *http.Request, err error) { t.Errorf("reported as the store's error: %v", err) },
		OnDecision: func(_ *http.Request, e httplimit.Event) { events = append(events, e) },
	}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("passed on") }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, request(t, "/").WithContext(ctx))
	if rec.Code != 503 || len(events) != 1 || events[0].Verdict != evaluate.Abandoned || !errors.Is(events[0].Err, context.Canceled) {
		t.Errorf("status %d, events %+v", rec.Code, events)
	}
}

// TestFieldsOfAShare: while the store is unavailable, answers describe the node's share of
// each limit.
func TestFieldsOfAShare(t *testing.T) {
	for _, c := range []struct {
		limits                   []string
		policy, rateLimit, limit string
		retry                    string // of the denial that comes next
	}{
		{[]string{"6/min sliding-log"}, `"api";q=2;w=60`, `"api";r=1;t=60`, "2", "60"},
		{[]string{"6/min"}, `"api";q=6;w=180;sluice-burst=2`, `"api";r=1;t=30`, "2", "30"},
		{[]string{"2/min fixed-window anchor first"}, `"api";q=1;w=90`, `"api";r=0;t=90`, "1", "90"},
		{
			[]string{"6/min sliding-log", "90/h sliding-log"},
			`"api/sliding-log.min";q=2;w=60, "api/sliding-log.hour";q=30;w=3600`,
			`"api/sliding-log.min";r=1;t=60`, "2", "60",
		},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			store, err := remote.Wrap(testkit.Failing(errDown), remote.Options{
				Policy: sluice.FailLocal, Local: newStore(newClock()), Nodes: func() int { return 3 },
			})
			if err != nil {
				t.Fatal(err)
			}
			testkit.Closed(t, store)
			h := newMiddleware(t, httplimit.Options{
				Store: store, Rules: []policy.Rule{rule(t, "api", policy.IP(), c.limits...)}, Fields: httplimit.Draft11 | httplimit.XRateLimit,
			}).Wrap(ok)
			first := ask(t, h, "/")
			rec := first
			for rec.Code == http.StatusOK {
				rec = ask(t, h, "/")
			}
			for name, want := range map[string]string{"RateLimit-Policy": c.policy, "RateLimit": c.rateLimit, "X-RateLimit-Limit": c.limit} {
				if got := field(first, name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			if got := field(rec, "Retry-After"); rec.Code != http.StatusTooManyRequests || got != c.retry || field(rec, "RateLimit-Policy") != c.policy {
				t.Errorf("status %d, Retry-After %s, RateLimit-Policy %s; want 429, %s, %s", rec.Code, got, field(rec, "RateLimit-Policy"), c.retry, c.policy)
			}
		})
	}
}

// TestCostAboveAShare: a request that fits no share may retry when the store is back.
func TestCostAboveAShare(t *testing.T) {
	store, err := remote.Wrap(testkit.Failing(errDown), remote.Options{
		Policy: sluice.FailLocal, Local: newStore(newClock()), Nodes: func() int { return 3 },
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, store)
	api := costing(rule(t, "api", policy.IP(), "6/min sliding-log"), policy.Cost{Units: 3})
	api.Failure = sluice.FailLocal
	h := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{api}, OnError: func(*http.Request, error) {}}).Wrap(ok)
	if rec := ask(t, h, "/"); rec.Code != http.StatusServiceUnavailable || field(rec, "Retry-After") != "1" {
		t.Errorf("status %d, Retry-After %q; want 503, 1", rec.Code, field(rec, "Retry-After"))
	}
}
