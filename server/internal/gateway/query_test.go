// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// askTarget sends a request with a target verbatim, and returns the answer's status.
func askTarget(t *testing.T, url, target string) int {
	t.Helper()
	_, answers := dial(t, url, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	check(t, err)
	check(t, resp.Body.Close())
	return resp.StatusCode
}

// TestSpaceInQuery: over HTTP/2 a query may contain a space, which would end the target for an
// HTTP/1 upstream.
func TestSpaceInQuery(t *testing.T) {
	g, err := gateway.New("http://127.0.0.1:1", gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.URL.RawQuery = "a HTTP/1.0"
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d, want 400", w.Code)
	}
}

// TestQueries: a query reaches the upstream unchanged, in any spelling, unless a rule's key
// has a parameter that servers read differently.
func TestQueries(t *testing.T) {
	got := make(chan string, 1)
	upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
	for _, c := range []struct {
		name, rules string
		refused     []string // the query
		passed      []string
	}{
		{"no rule reads it", "[{name: a, by: ip, limits: 1000/min}]", nil, []string{
			"", "?", "?q=100%&r=2", "?a;b", "?a=1;b=2&c", "?%zz=%", "?q=a#b&c=1", "?q=1&q=2&&=", "?=", "?q=%00", "?q=%2526", "?q==1", "?q=a?b", "?q[]=1", "?q={\"a\":1}", "?q=a|b", "?q=%u0041", "?q=\xff", "?" + strings.Repeat("&", 10_001) + "q", "?q=%C3%A4%ff",
		}},
		{"a key", "[{name: a, by: query.q, missing: skip, limits: 1000/min}]", []string{
			"?q=100%&r=2", "?q=1;r=2", "?r;q=1", "?q=1&r;q=2", "?q#=1", "?r#&q=1", "?q=a#b", "?%71=%zz", "?r=1#;q=2", "?q=1&q=2", "?" + strings.Repeat("&", 10_001) + "q=1%",
		}, []string{
			"", "?r=100%&q=1", "?q=1&r;s", "?q=1&r#s", "?qq=%", "?q=100%25", "?q=a%3Bb%23c", "?" + strings.Repeat("&", 10_001) + "q=1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := config.Parse("f", []byte("rules: "+c.rules))
			if err != nil {
				t.Fatal(err)
			}
			g, err := gateway.New(upstream, gateway.Options{})
			if err != nil {
				t.Fatal(err)
			}
			around, err := httplimit.New(httplimit.Options{Policy: file.Policy, Store: memstore.New(memstore.Options{})})
			if err != nil {
				t.Fatal(err)
			}
			url := serve(t, around.Wrap(g), g.Close)
			for _, query := range c.passed {
				if status := askTarget(t, url, "/x"+query); status != http.StatusOK {
					t.Errorf("%.60s: got %d, want 200", query, status)
				} else if arrived := <-got; arrived != "/x"+query {
					t.Errorf("%.60s: arrived as %.60s", query, arrived)
				}
			}
			for _, query := range c.refused {
				if status := askTarget(t, url, "/x"+query); status != http.StatusBadRequest {
					t.Errorf("%.60s: got %d, want 400", query, status)
					<-got
				}
			}
		})
	}
}
