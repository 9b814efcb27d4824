// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// settled decides r and settles it if it is allowed. It returns the status of the client's
// answer.
func settled(mw *httplimit.Middleware, r *http.Request, resp policy.Response) int {
	q := mw.Decide(r)
	if q.Allowed() {
		q.Settle(resp)
		return resp.Status
	}
	w := httptest.NewRecorder()
	q.Refuse(w)
	return w.Code
}

// TestDecide: an allowed request passes with its fields, and any other is answered as by
// Wrap.
func TestDecide(t *testing.T) {
	var reported []evaluate.VerdictKind
	closed := rule(t, "api", policy.Query("user"), "1/min")
	closed.Failure = sluice.FailClosed
	store := &testkit.Store{Store: newStore(newClock())}
	mw := newMiddleware(t, httplimit.Options{
		Store: store, Rules: []policy.Rule{closed},
		OnDecision: func(_ *http.Request, e httplimit.Event) { reported = append(reported, e.Verdict) },
		OnError:    func(*http.Request, error) {},
	})
	wrapped := mw.Wrap(ok)
	for _, c := range []struct {
		name, target string
		down         bool
		verdict      evaluate.VerdictKind
		status       int // 0: allowed
		limit        string
		retry        string
	}{
		{"allowed", "/?user=u1", false, evaluate.Allowed, 0, `"api";r=0;t=60`, ""},
		{"denied", "/?user=u1", false, evaluate.Denied, 429, `"api";r=0;t=60`, "60"},
		{"without a key", "/", false, evaluate.Refused, 400, "", ""},
		{"not decided", "/?user=u2", true, evaluate.FailedClosed, 503, "", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if store.Before = nil; c.down {
				store.Before = outage
			}
			reported = nil
			q := mw.Decide(request(t, c.target))
			if e := q.Event(); q.Allowed() != (c.status == 0) || e.Verdict != c.verdict || e.Status != c.status {
				t.Fatalf("allowed %v, event %+v; want %v, %d", q.Allowed(), e, c.verdict, c.status)
			}
			if !slices.Equal(reported, []evaluate.VerdictKind{c.verdict}) {
				t.Errorf("reported %v, want %v once", reported, c.verdict)
			}
			rec := httptest.NewRecorder()
			if c.status == 0 {
				q.SetFields(rec.Header())
				q.Settle(policy.Response{Status: http.StatusOK})
			} else if q.Refuse(rec); rec.Code != c.status {
				t.Errorf("answered %d, want %d", rec.Code, c.status)
			}
			if got := field(rec, "RateLimit"); got != c.limit {
				t.Errorf("RateLimit %q, want %q", got, c.limit)
			}
			if got := field(rec, "Retry-After"); got != c.retry {
				t.Errorf("Retry-After %q, want %q", got, c.retry)
			}
			if c.status == 0 {
				return
			}
			other := ask(t, wrapped, c.target)
			if got, want := readProblem(t, rec), readProblem(t, other); !equalProblems(got, want) {
				t.Errorf("the problem is %+v, that of Wrap %+v", got, want)
			}
		})
	}
}

// TestDecideHidesFieldsOfTheHop: they are not passed on, and the caller's request keeps them.
func TestDecideHidesFieldsOfTheHop(t *testing.T) {
	mw := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{rule(t, "api", policy.IP(), "1/min")}})
	r := request(t, "/", "Connection: X-Hop", "X-Hop: 1", "X-End: 2")
	q := mw.Decide(r)
	if got := q.HTTP().Header; got.Get("X-Hop") != "" || got.Get("X-End") != "2" {
		t.Errorf("passed on %v, want X-End without X-Hop", got)
	}
	if r.Header.Get("X-Hop") != "1" {
		t.Errorf("the caller's request has lost X-Hop: %v", r.Header)
	}
}

// TestDecideOwnLimits: a client that asks for its own limits is answered, not passed on.
func TestDecideOwnLimits(t *testing.T) {
	const yaml = "  - {name: api, by: ip, limits: 5/min}\n"
	q := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t)}).Decide(requestOf(t, "GET", ownPath, ""))
	if q.Allowed() {
		t.Fatal("was to be passed on")
	}
	rec := httptest.NewRecorder()
	q.Refuse(rec)
	var got ownAnswer
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusOK || len(got.Limits) != 1 {
		t.Errorf("got %d %q, %v, want one limit", rec.Code, rec.Body, err)
	}
}

// TestSettleByStatus: six log-ins, of which three a minute may fail, without a
// ResponseWriter.
func TestSettleByStatus(t *testing.T) {
	for _, c := range []struct {
		name string
		hold bool
		resp policy.Response
		want []int
	}{
		{"fails", false, policy.Response{Status: 401}, []int{401, 401, 401, 429, 429, 429}},
		{"fails, held", true, policy.Response{Status: 401}, []int{401, 401, 401, 429, 429, 429}},
		{"succeeds", false, policy.Response{Status: 200}, []int{200, 200, 200, 200, 200, 200}},
		{"succeeds, held", true, policy.Response{Status: 200}, []int{200, 200, 200, 200, 200, 200}},
		{"is not seen", false, policy.Response{Status: 200, Unseen: true}, []int{200, 200, 200, 429, 429, 429}},
		{"is not seen, held", true, policy.Response{Status: 200, Unseen: true}, []int{200, 200, 200, 429, 429, 429}},
	} {
		t.Run(c.name, func(t *testing.T) {
			login := rule(t, "login", policy.IP(), "3/min")
			login.When = &policy.When{Status: []policy.Status{policy.Code(http.StatusUnauthorized)}, ChargeFirst: c.hold}
			mw := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{login}})
			var got []int
			for range 6 {
				got = append(got, settled(mw, request(t, "/login"), c.resp))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestSettleByBytes: the bytes written or read count, and a second Settle does nothing.
func TestSettleByBytes(t *testing.T) {
	written := policy.Cost{Of: policy.ResponseBytes}
	read := policy.Cost{Of: policy.RequestBytes}
	named := policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Units: 5, Most: 50}
	header := func(name string) []string { return http.Header{"X-Cost": {"9"}}[name] }
	for _, c := range []struct {
		name  string
		cost  policy.Cost
		resp  policy.Response
		spent int64
	}{
		{"written", written, policy.Response{Status: 200, Written: 40}, 40},
		{"nothing written", written, policy.Response{Status: 204}, 0},
		{"written more than is left", written, policy.Response{Status: 200, Written: 400}, 100},
		{"not seen", written, policy.Response{Unseen: true}, 1},
		{"read", read, policy.Response{Status: 200, Read: 4}, 4},
		{"how much was read is not known", read, policy.Response{Status: 200, Read: -1}, 10},
		{"a header", named, policy.Response{Status: 200, Header: header}, 9},
		{"no header", named, policy.Response{Status: 200}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, limit := newStore(newClock()), limitOf(c.cost)
			mw := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{costing(rule(t, "api", policy.IP(), limit), c.cost)}})
			q := mw.Decide(requestOf(t, "POST", "/", "0123456789"))
			q.Settle(c.resp)
			q.Settle(policy.Response{Status: 200, Written: 77, Read: 77})
			if got := spent(t, store, testkit.Plan(t, "api", limit), client); got != c.spent {
				t.Errorf("%d units spent, want %d", got, c.spent)
			}
		})
	}
}

// TestDecideHoldsBack: it blocks until the request may go on, and the body read meanwhile is
// passed on.
func TestDecideHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mw := newMiddleware(t, httplimit.Options{
			Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule(t, "api", policy.IP(), "1/s leaky-bucket burst 3")},
		})
		start := time.Now()
		var clients sync.WaitGroup
		for i, want := range []struct {
			after  time.Duration
			status int
		}{{0, 200}, {time.Second, 200}, {2 * time.Second, 200}, {0, 429}} {
			clients.Go(func() {
				body := strings.Repeat("x", 10_000*i)
				q := mw.Decide(requestOf(t, "POST", "/", body))
				if took := time.Since(start); q.Allowed() != (want.status == 200) || took != want.after {
					t.Errorf("request %d: allowed %v after %v, want %+v", i, q.Allowed(), took, want)
				}
				if !q.Allowed() {
					return
				}
				if got, err := io.ReadAll(q.HTTP().Body); err != nil || string(got) != body {
					t.Errorf("request %d: passed on %d bytes, %v; want %d", i, len(got), err, len(body))
				}
				q.Settle(policy.Response{Status: 200, Read: int64(len(body))})
			})
			synctest.Wait()
		}
		clients.Wait()
	})
}

// TestDecideOfOneWhoLeaves: a client that leaves during the delay spends nothing.
func TestDecideOfOneWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mw := newMiddleware(t, httplimit.Options{
			Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule(t, "api", policy.IP(), "1/s leaky-bucket burst 2")},
		})
		start := time.Now()
		mw.Decide(request(t, "/")).Settle(policy.Response{Status: 200})
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, leave)
		if got := settled(mw, request(t, "/").WithContext(ctx), policy.Response{Status: 200}); got != http.StatusServiceUnavailable {
			t.Errorf("who left: got %d, want 503", got)
		}
		got := settled(mw, request(t, "/"), policy.Response{Status: 200})
		if took := time.Since(start); got != http.StatusOK || took != time.Second {
			t.Errorf("in its place: got %d after %v, want 200 after 1s", got, took)
		}
	})
}

// TestDecideKeepsSlots: a request keeps its slot until it is settled, however long it runs.
func TestDecideKeepsSlots(t *testing.T) {
	for _, limits := range []string{"", ", limits: 9/min"} { // the store decides these with the slot
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, "  - {name: a, by: ip, in_flight: {cap: 1, ttl: 30s}"+limits+"}", echo, httplimit.Options{Store: memstore.New(memstore.Options{})})
			for range 2 {
				q := g.Decide(requestOf(t, "GET", "/", ""))
				if !q.Allowed() {
					t.Fatalf("%+v, want that it is allowed", q.Event())
				}
				time.Sleep(10 * time.Minute) // many leases
				if got := settled(g.Middleware, requestOf(t, "GET", "/", ""), policy.Response{Status: 200}); got != http.StatusTooManyRequests {
					t.Errorf("beside it: got %d, want 429", got)
				}
				q.Settle(policy.Response{Status: 200})
				q.Settle(policy.Response{Status: 200})
			}
		})
	}
}

// TestHiddenWriter: under Wrap a framework whose handlers use another writer is charged all
// the same, as their responses are not seen.
func TestHiddenWriter(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		want       []int
	}{
		{"failed log-ins", "limits: 3/min, when: {response: [401]}", []int{401, 401, 401, 429, 429, 429}},
		{"failed log-ins, held", "limits: 3/min, when: {response: [401], charge: first}", []int{401, 401, 401, 429, 429, 429}},
		{"bytes, of which each costs one at least", "limits: 4B/min, cost: response-bytes", []int{401, 401, 401, 401, 429, 429}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hidden http.ResponseWriter
			g := newGuard(t, "  - {name: a, by: ip, "+c.rule+"}", func(http.ResponseWriter, *http.Request) {
				hidden.WriteHeader(http.StatusUnauthorized)
			}, httplimit.Options{Store: newStore(newClock())})
			var got []int
			for range 6 {
				rec := httptest.NewRecorder()
				hidden = rec
				g.ServeHTTP(rec, requestOf(t, "POST", "/login", ""))
				got = append(got, rec.Code)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
