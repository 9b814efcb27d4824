// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

func newClock() *testkit.Clock { return testkit.ClockAt(time.Unix(1_700_000_000, 0)) }

func newStore(c *testkit.Clock) *memstore.Store { return memstore.New(memstore.Options{Now: c.Now}) }

// rule returns a rule that charges each request to its key under limits.
func rule(t testing.TB, name string, key policy.Part, limits ...string) policy.Rule {
	t.Helper()
	ls := make([]sluice.Limit, len(limits))
	for i, text := range limits {
		ls[i] = sluice.MustParseLimit(text)
	}
	return policy.NewRule(name, key, ls...)
}

// counting returns a rule that counts only responses of some statuses.
func counting(r policy.Rule, statuses ...policy.Status) policy.Rule {
	r.When = &policy.When{Status: statuses, ChargeFirst: true}
	return r
}

// costing returns a rule with another cost.
func costing(r policy.Rule, cost policy.Cost) policy.Rule {
	r.Cost = cost
	return r
}

// keyer returns a function that finds the key of a request under key, or an error if that
// cannot be compiled.
func keyer(t testing.TB, key policy.Part) func(*http.Request) (string, error) {
	t.Helper()
	return keyerWith(t, httplimit.Options{}, key)
}

// keyerWith is keyer of a Middleware with further options.
func keyerWith(t testing.TB, o httplimit.Options, key policy.Part) func(*http.Request) (string, error) {
	t.Helper()
	var last httplimit.Event
	o.Store = memstore.New(memstore.Options{})
	o.Rules = []policy.Rule{rule(t, "api", key, "1000000000/s")}
	o.OnDecision = func(_ *http.Request, e httplimit.Event) { last = e }
	o.OnError = func(*http.Request, error) {} // the event has it
	mw := newMiddleware(t, o)
	return func(r *http.Request) (string, error) {
		mw.Decide(r)
		return last.Charge.Key, last.Err
	}
}

// keyOf returns the key of one request.
func keyOf(t testing.TB, key policy.Part, r *http.Request) (string, error) {
	t.Helper()
	return keyer(t, key)(r)
}

func newMiddleware(t testing.TB, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	mw, err := httplimit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return mw
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	if _, err := io.WriteString(w, "ok\n"); err != nil {
		panic(err)
	}
})

// write writes text to w.
func write(t testing.TB, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Error(err)
	}
}

func ask(t testing.TB, h http.Handler, target string, lines ...string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, request(t, target, lines...))
	return rec
}

func field(rec *httptest.ResponseRecorder, name string) string {
	return strings.Join(rec.Header()[name], "\n")
}

// request reads a request's text: its target, then header lines.
func request(t testing.TB, target string, lines ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q is not a header line", line)
		}
		r.Header.Add(name, value)
	}
	return r
}
