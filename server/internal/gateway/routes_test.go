// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

func says(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			name = err.Error()
		}
		w.Header().Set("X-Route", name)
	})
}

func TestRoutes(t *testing.T) {
	routes, err := gateway.NewRoutes(
		gateway.Route{Host: "API.example.com", Path: "/v1/", Handler: says("api v1")},
		gateway.Route{Host: "*.example.com", Path: "/x", Handler: says("below x")},
		gateway.Route{Host: "[2001:db8::1]", Handler: says("literal")},
		gateway.Route{Path: "/any", MaxBody: 4, Handler: says("any")},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, host, path, body, want string }{
		{"host and path", "api.example.com", "/v1/users", "", "api v1"},
		{"the path itself", "api.example.com", "/v1", "", "api v1"},
		{"a port, a final dot, capitals", "Api.Example.com.:443", "/v1/", "", "api v1"},
		{"an address of IPv6", "[2001:db8::1]", "/", "", "literal"},
		{"an address of IPv6 and a port", "[2001:DB8::1]:80", "/", "", "literal"},
		{"a longer segment", "api.example.com", "/v1x", "", ""},
		{"below a host", "www.example.com", "/x/y", "", "below x"},
		{"the host itself is not below it", "example.com", "/x", "", ""},
		{"a host that only ends alike", "wwwexample.com", "/x", "", ""},
		{"an escaped path", "other", "/%61ny/z", "", "any"},
		{"dot segments into a route", "other", "/b/../any", "", "any"},
		{"dot segments out of a route", "other", "/any/../b", "", ""},
		{"escaped dot segments out of a route", "other", "/any/%2e%2e/b", "", ""},
		{"doubled slashes", "other", "//any", "", "any"},
		{"a body that fits", "other", "/any", "1234", "any"},
		{"a body that does not", "other", "/any", "12345", "http: request body too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://placeholder"+c.path, io.MultiReader(strings.NewReader(c.body)))
			r.Host = c.host
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, r)
			if got := w.Header().Get("X-Route"); got != c.want || c.want == "" && w.Code != http.StatusNotFound {
				t.Errorf("got %q %d, want %q", got, w.Code, c.want)
			}
		})
	}
	t.Run("a body that says it does not fit", func(t *testing.T) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/any", strings.NewReader("12345"))
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || w.Header().Get("X-Route") != "" {
			t.Errorf("got %d, want 413 before anyone is asked", w.Code)
		}
	})
}

func TestRoutesFaults(t *testing.T) {
	_, err := gateway.NewRoutes(gateway.Route{Path: "v1", Handler: says("")}, gateway.Route{MaxBody: -1})
	for _, want := range []string{`route 1: Path "v1"`, "route 2: Handler is nil", "route 2: MaxBody"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
