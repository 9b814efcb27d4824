// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// bytesOf is a Middleware whose one rule counts bytes.
func bytesOf(t *testing.T, store sluice.Store, name string, cost policy.CostOf) (*httplimit.Middleware, func() int64) {
	t.Helper()
	const limit = "1000000B/h"
	r := costing(rule(t, name, policy.IP(), limit), policy.Cost{Of: cost})
	mw := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{r}})
	return mw, func() int64 { return spent(t, store, testkit.Plan(t, name, limit), client) }
}

// TestNestedBody: each of two nested middlewares counts the bytes read through it, and the end
// of the inner body is not that of the outer one.
func TestNestedBody(t *testing.T) {
	store := newStore(newClock())
	outer, out := bytesOf(t, store, "outer", policy.RequestBytes)
	inner, in := bytesOf(t, store, "inner", policy.RequestBytes)
	var parts []string
	read := func(n int) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			part, err := io.ReadAll(io.LimitReader(r.Body, int64(n)))
			if err != nil {
				t.Error(err)
			}
			parts = append(parts, string(part))
		})
	}
	limited := inner.Wrap(read(3))
	outer.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read(2).ServeHTTP(w, r)
		limited.ServeHTTP(w, r)
		read(10).ServeHTTP(w, r)
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("0123456789")))
	if want := []string{"01", "234", "56789"}; !slices.Equal(parts, want) || out() != 10 || in() != 3 {
		t.Errorf("read %q, counted %d and %d; want %q, 10 and 3", parts, out(), in(), want)
	}
}

// TestNestedResponses: a handler may call an inner one several times; each call counts, or
// slows down, its own bytes.
func TestNestedResponses(t *testing.T) {
	store := newStore(newClock())
	outer, out := bytesOf(t, store, "outer", policy.ResponseBytes)
	inner, in := bytesOf(t, store, "inner", policy.ResponseBytes)
	shaping := costing(rule(t, "shaped", policy.IP(), "1000000B/h"), policy.Cost{Of: policy.ResponseBytes})
	shaping.Shape = true
	shaped := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{shaping}})
	write := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, strings.Repeat("x", 100)); err != nil {
			t.Error(err)
		}
	})
	limited := shaped.Wrap(inner.Wrap(write))
	outer.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 4 {
			limited.ServeHTTP(w, r)
		}
		write(w, r)
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	slowed := spent(t, store, testkit.Plan(t, "shaped", "1000000B/h"), client)
	if out() != 500 || in() != 400 || slowed != 400 {
		t.Errorf("counted %d and %d, slowed %d down; want 500, 400 and 400", out(), in(), slowed)
	}
}

// TestNestedHold: a handler between two middlewares may replace the request's body; the inner
// middleware counts and reads ahead the new one.
func TestNestedHold(t *testing.T) {
	store := newStore(newClock())
	outer, out := bytesOf(t, store, "outer", policy.RequestBytes)
	inner, in := bytesOf(t, store, "inner", policy.RequestBytes)
	held := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{rule(t, "held", policy.IP(), "100/s burst 10 leaky-bucket")}})
	limited := held.Wrap(inner.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "0123456789" {
			t.Errorf("read %q, %v", body, err)
		}
	})))
	handler := outer.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		limited.ServeHTTP(w, r)
	}))
	for range 3 {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("0123456789")))
		if rec.Code != http.StatusOK {
			t.Errorf("answered %d: %s", rec.Code, rec.Body)
		}
	}
	if out() != 30 || in() != 30 {
		t.Errorf("counted %d and %d; want 30", out(), in())
	}
}

// TestNestedAnswers: of fields with one name, the innermost middleware's reach the client and
// not the handler's, even on a denial.
func TestNestedAnswers(t *testing.T) {
	wrap := func(name, limit string, next http.Handler) http.Handler {
		r := rule(t, name, policy.IP(), limit)
		r.Answer = &policy.Answer{Fields: answerFields("x-left", "{remaining}", "X-"+name, "{used}")}
		return newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}}).Wrap(next)
	}
	h := wrap("outer", "9/h", wrap("inner", "2/h", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Left", "mine")
		w.Header().Set("X-Outer", "mine")
		if _, err := io.WriteString(w, "ok"); err != nil {
			t.Error(err)
		}
	})))
	for i, left := range []string{"1", "0", "0"} {
		rec := ask(t, h, "/")
		all := rec.Result().Header
		if !slices.Equal(all["x-left"], []string{left}) || all["X-Left"] != nil || all["X-Outer"] != nil || !slices.Equal(all["X-outer"], []string{strconv.Itoa(i + 1)}) {
			t.Errorf("request %d: %d %v", i+1, rec.Code, all)
		}
	}
}

// TestNestedXRateLimit: a denial has the remaining units of the middleware that denied.
func TestNestedXRateLimit(t *testing.T) {
	wrap := func(name, limit string, next http.Handler) http.Handler {
		r := rule(t, name, policy.IP(), limit)
		r.Answer = &policy.Answer{Fields: answerFields("X-"+name, "{remaining}")} // so that something stands between
		return newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}, Fields: httplimit.XRateLimit}).Wrap(next)
	}
	h := wrap("outermost", "90/h", wrap("outer", "9/h", wrap("inner", "1/h", ok)))
	for i, want := range []string{"0", "0"} {
		rec := ask(t, h, "/")
		if got := rec.Result().Header["X-RateLimit-Remaining"]; !slices.Equal(got, []string{want}) {
			t.Errorf("request %d: %d, %q left, want %q", i+1, rec.Code, got, want)
		}
	}
}
