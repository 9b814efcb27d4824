// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// A query parameter has the value that net/url reads, or is refused.
func FuzzByQueryEqualsNetURL(f *testing.F) {
	for _, s := range []string{"id=1", "a=b&id=%31", "id=1&id=2", "i%64=+", "id;=1", "id=%", "&&=&id", "%=1&id=%2B"} {
		f.Add(s)
	}
	keyOf := keyer(f, policy.Query("id"))
	f.Fuzz(func(t *testing.T, query string) {
		all, parseErr := url.ParseQuery(query)
		got, err := keyOf(&http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: query}})
		var bad *policy.PartError
		switch {
		case err == nil:
			if want := all["id"]; len(want) != 1 || want[0] != got {
				t.Fatalf("query %q: got %q, net/url has %q", query, got, want)
			}
		case strings.Contains(query, " "): // of which there is no request over HTTP/1
		case !errors.As(err, &bad):
			t.Fatalf("query %q: %v", query, err)
		case bad.Missing:
			if all.Get("id") != "" {
				t.Fatalf("query %q: %v, net/url has %q", query, err, all["id"])
			}
		case parseErr == nil && len(all["id"]) == 1 && len(all["id"][0]) <= bounds.MaxValueBytes:
			t.Fatalf("query %q: %v, net/url has %q", query, err, all["id"])
		}
	})
}

// A segment has the value that a ServeMux reads, or is refused.
func FuzzByPathSegmentEqualsServeMux(f *testing.F) {
	for _, s := range []string{"/users/u1", "/users/u%31", "/users//u1", "/users/a%2Fb", "/users/../u1", "/users/%2e", "/users/u1/", "/users/%zz"} {
		f.Add(s)
	}
	keyOf := keyer(f, policy.Segment(2))
	var want string
	mux := http.NewServeMux()
	take := func(_ http.ResponseWriter, r *http.Request) { want = r.PathValue("id") }
	mux.HandleFunc("/{first}/{id}", take)
	mux.HandleFunc("/{first}/{id}/{rest...}", take)
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || u.RawQuery != "" || !strings.HasPrefix(path, "/") {
			t.Skip()
		}
		got, err := keyOf(&http.Request{Method: http.MethodGet, URL: u})
		if err != nil {
			return
		}
		want = ""
		mux.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: u, Host: "x"})
		if want != "" && got != want { // "" where the mux redirects
			t.Fatalf("path %q: got %q, ServeMux has %q", path, got, want)
		}
	})
}
