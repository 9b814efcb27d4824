// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestOrigin: only trusted proxies may state a client's origin, and only in known fields.
func TestOrigin(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	spoofed := http.Header{
		"X-Forwarded-For":    {"203.0.113.9", "203.0.113.10"},
		"X-Forwarded-Host":   {"shop.example"},
		"X-Forwarded-Proto":  {"https"},
		"X-Forwarded-Port":   {"443"},
		"X_Forwarded_For":    {"203.0.113.11"},
		"x-forwarded-prefix": {"/x"},
		"Forwarded":          {"for=203.0.113.12"},
		"X-Real-Ip":          {"203.0.113.13"},
		"X_real-ip":          {"203.0.113.13"},
		"True-Client-Ip":     {"203.0.113.14"},
		"Cf-Connecting-Ip":   {"203.0.113.15"},
		"Accept":             {"text/plain"},
		"X-Request-Id":       {"7"},
		"Proxy-Connection":   {"keep-alive"},
		"Connection":         {"X-Hop"},
		"X-Hop":              {"1"},
	}
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		want    map[string]string
	}{
		{"of anybody", nil, map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "front.example", "X-Forwarded-Proto": "http",
		}},
		{"of another network's proxy", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "front.example", "X-Forwarded-Proto": "http",
		}},
		{"of a trusted proxy", loopback, map[string]string{
			"X-Forwarded-For": "203.0.113.9, 203.0.113.10, 127.0.0.1", "X-Forwarded-Host": "shop.example",
			"X-Forwarded-Proto": "https", "X-Forwarded-Port": "443", "X-Forwarded-Prefix": "/x",
			"X-Real-Ip": "203.0.113.13", "True-Client-Ip": "203.0.113.14", "Cf-Connecting-Ip": "203.0.113.15",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got http.Header
			var host string
			upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host }))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front(t, upstream, gateway.Options{Trusted: c.trusted}), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.Header = "front.example", maps.Clone(spoofed)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(c.want)
			want["Accept"], want["X-Request-Id"] = "text/plain", "7"
			delete(got, "Accept-Encoding")
			delete(got, "User-Agent")
			for name, values := range got {
				if joined := strings.Join(values, ", "); joined != want[name] {
					t.Errorf("%s: %q, want %q", name, joined, want[name])
				}
			}
			for name := range want {
				if _, ok := got[name]; !ok {
					t.Errorf("%s is missing in %v", name, slices.Sorted(maps.Keys(got)))
				}
			}
			if host != "front.example" {
				t.Errorf("host %q", host)
			}
		})
	}
}

// TestUpgrades: upgrades by which requests would bypass the rules are not passed on.
func TestUpgrades(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{"websocket", "websocket"},
		{"h2c", ""},
		{"H2C, websocket", "websocket"},
		{"HTTP/2.0", ""},
		{"TLS/1.2, HTTP/1.1", ""},
		{"tcp, example/2", "tcp, example/2"},
		{" , ", ""},
	} {
		t.Run(c.sent, func(t *testing.T) {
			var got http.Header
			upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front(t, upstream, gateway.Options{}), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {c.sent}, "Http2-Settings": {"AAMAAABkAAQAAP__"}}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			check(t, resp.Body.Close())
			connection := "Upgrade"
			if c.want == "" {
				connection = ""
			}
			if got.Get("Upgrade") != c.want || got.Get("Connection") != connection || got.Get("Http2-Settings") != "" {
				t.Errorf("the upstream got %v, want to upgrade to %q", got, c.want)
			}
		})
	}
}

func TestUpstreamHostAndPath(t *testing.T) {
	var host, path string
	upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host, path = r.Host, r.URL.String() }))
	readAll(t, do(t, http.MethodGet, front(t, upstream+"/base", gateway.Options{UpstreamHost: true})+"/a%2Fb?q=1&q=%20", nil).body)
	if want := strings.TrimPrefix(upstream, "http://"); host != want {
		t.Errorf("host %q, want %q", host, want)
	}
	if want := "/base/a%2Fb?q=1&q=%20"; path != want {
		t.Errorf("path %q, want %q", path, want)
	}
}

// TestFieldsAround: fields set by a handler around the Gateway are in the answer, even after
// an informational response of the upstream.
func TestFieldsAround(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Own", "2")
		w.WriteHeader(http.StatusTeapot)
	}))
	g, err := gateway.New(upstream, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["RateLimit"] = []string{`"a";r=1;t=2`}
		g.ServeHTTP(w, r)
	}))
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if hints++; code != http.StatusEarlyHints || h.Get("Link") == "" {
				t.Errorf("informational response %d %v", code, h)
			}
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, resp.Body.Close()) })
	if got := resp.Header.Values("Ratelimit"); len(got) != 1 || got[0] != `"a";r=1;t=2` {
		t.Errorf("RateLimit %q", got)
	}
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Own") != "2" || hints != 1 {
		t.Errorf("status %d, header %v, %d informational responses", resp.StatusCode, resp.Header, hints)
	}
}
