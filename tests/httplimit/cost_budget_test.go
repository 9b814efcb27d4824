// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// sink is a ResponseWriter that is used again and again.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// allFields is a middleware with every header field on, and a client behind a
// trusted proxy.
func allFields(t testing.TB, limits ...string) http.Handler {
	t.Helper()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	return newMiddleware(t, httplimit.Options{
		Store:   memstore.New(memstore.Options{}),
		Rules:   []policy.Rule{rule(t, "api", policy.IP(), limits...)},
		Trusted: proxies,
		Fields:  httplimit.Draft11 | httplimit.XRateLimit,
	}).Wrap(nothing)
}

func behindProxy(t testing.TB) *http.Request {
	t.Helper()
	r := request(t, "/", "X-Forwarded-For: 1.1.1.1, 198.51.100.7")
	r.RemoteAddr = "10.0.0.1:4711"
	return r
}

// The bounds on the middleware's allocations: the key, the fields' text and their
// slices; for several limits their outcomes, for several rules their charges.
func TestAllocations(t *testing.T) {
	r := behindProxy(t)
	two := newMiddleware(t, httplimit.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []policy.Rule{
			rule(t, "ip", policy.IP(), "a: 1000000/s"),
			rule(t, "host", policy.Host(), "b: 1000000/s", "c: 60000000/min"),
		},
		Fields: httplimit.Draft11 | httplimit.XRateLimit,
	}).Wrap(nothing)
	for _, c := range []struct {
		name string
		h    http.Handler
		most float64
	}{
		{"allowed", allFields(t, "a: 1000000/s"), 3},
		{"two limits", allFields(t, "a: 1000000/s", "b: 60000000/min"), 4},
		{"two rules of three limits", two, 6},
		// A denial also has its names, a body, and the fields of that.
		{"denied", allFields(t, "a: 1/day"), 6},
	} {
		w := &sink{header: http.Header{}}
		got := fewestAllocations(func() {
			clear(w.header)
			c.h.ServeHTTP(w, r)
		})
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
		if w.header["RateLimit"] == nil || w.header["X-RateLimit-Limit"] == nil {
			t.Errorf("%s: fields are missing: %v", c.name, w.header)
		}
	}
}

// fewestAllocations returns the allocations of f when all memory for reuse exists. Under the
// race detector a sync.Pool forgets one in four.
func fewestAllocations(f func()) float64 {
	fewest := testing.AllocsPerRun(1, f)
	for range 100 {
		fewest = min(fewest, testing.AllocsPerRun(1, f))
	}
	return fewest
}

// BenchmarkMiddleware measures a request with the middleware and one without it.
func BenchmarkMiddleware(b *testing.B) {
	r := behindProxy(b)
	for _, c := range []struct {
		name string
		h    http.Handler
	}{
		{"without", nothing},
		{"allowed", allFields(b, "a: 1000000000/s")},
		{"two limits", allFields(b, "a: 1000000000/s", "b: 60000000000/min")},
		{"denied", allFields(b, "a: 1/day")},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := &sink{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				c.h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkServer is the same over real connections.
func BenchmarkServer(b *testing.B) {
	limited, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", policy.IP(), sluice.PerSecond(1_000_000_000))
	if err != nil {
		b.Fatal(err)
	}
	for name, h := range map[string]http.Handler{"without": nothing, "with": limited.Wrap(nothing)} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			b.ReportAllocs()
			for b.Loop() {
				resp, err := srv.Client().Get(srv.URL)
				if err != nil {
					b.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
