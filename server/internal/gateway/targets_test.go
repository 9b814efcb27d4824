// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestTargetsThatAreNone: a target that is neither a path nor a URL of http is refused
// before anything is charged.
func TestTargetsThatAreNone(t *testing.T) {
	g := newGuard(t, "  - {name: all, limits: 1/h}\n", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Opaque != "" {
			t.Errorf("%q was passed on", r.RequestURI)
		}
	})
	for _, target := range []string{"x:http://h/login", "x:login", "http:login", "x:%2flogin"} {
		if got, ok := answerTo(g, target); !ok || got != http.StatusBadRequest {
			t.Errorf("%q: got %d, %v, want 400", target, got, ok)
		}
	}
	if got, ok := answerTo(g, "/"); !ok || got != http.StatusOK {
		t.Errorf("after that: got %d, %v, want the only unit", got, ok)
	}
}

// answerTo sends a request with the target as written. ok is false if that is no request.
func answerTo(h http.Handler, target string) (status int, ok bool) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		return 0, false
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, true
}

// TestFieldsOfTheHop: fields that Connection names are not passed on, and so not evaluated.
func TestFieldsOfTheHop(t *testing.T) {
	g := newGuard(t, "  - {name: key, by: header.X-Api-Key, limits: 9/h}\n  - {name: session, by: cookie.sid, missing: share, limits: 1/h}\n", echo)
	for _, c := range []struct {
		connection string
		want       int
	}{
		{"", http.StatusOK},
		{"X-Api-Key", http.StatusBadRequest},
		{"keep-alive, x-api-key", http.StatusBadRequest},
		{"Cookie", http.StatusOK}, // the unit that is shared
		{"cookie", http.StatusTooManyRequests},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header = http.Header{"X-Api-Key": {"k"}, "Cookie": {"sid=x" + c.connection}}
		if c.connection != "" {
			r.Header.Set("Connection", c.connection)
		}
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("Connection: %s: got %d, want %d", c.connection, w.Code, c.want)
		}
	}
}

// FuzzRoutesAndRules: a request that is routed to the upstream of a path is under the rule of
// that path.
func FuzzRoutesAndRules(f *testing.F) {
	for _, target := range []string{
		"/v1/a", "/v1%2fa", "/x/..%2fv1/a", "/%2e%2e%2Fv1/", "/x%2f..%2fv1/a%5c..%5c..%5c..", `/x\..\v1/a`, "//v1//a", "http://h/v1/a", "x:/v1/a", "*",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if strings.ContainsAny(target, " \r\n") {
			return
		}
		routed := false
		routes, err := gateway.NewRoutes(
			gateway.Route{Path: "/v1", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { routed = true })},
			gateway.Route{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		)
		if err != nil {
			t.Fatal(err)
		}
		g := newGuard(t, "  - {name: v1, match: {path: [/v1, /v1/]}, limits: 1/h}\n", routes.ServeHTTP)
		if _, ok := answerTo(g, "/v1"); !ok || !routed {
			t.Fatal("/v1 is routed elsewhere")
		}
		routed = false
		if status, _ := answerTo(g, target); routed { // what is no request is not
			t.Errorf("%q: got %d from the upstream of /v1, whose quota was spent", target, status)
		}
	})
}
