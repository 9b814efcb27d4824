// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
	"github.com/go-chi/httprate"
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// BenchmarkHTTP measures what a middleware adds to a request, without sockets:
// the handler behind it writes two bytes, and so does "none" alone. Every
// middleware finds the client behind a proxy, as far as it can, and writes all
// the header fields that it knows.
func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name string
		wrap func(*testing.B, http.Handler) http.Handler
		want int
	}{
		{"none", func(_ *testing.B, next http.Handler) http.Handler { return next }, http.StatusOK},
		{"sluice", withSluice("1000000/s"), http.StatusOK},
		{"sluice.clients", withSluice("1000000000/day"), http.StatusOK}, // 1,024 in turn, each of which has less left in each answer
		{"sluice.denied", withSluice("1/day"), http.StatusTooManyRequests},
		{"httprate", withHTTPRate, http.StatusOK},
		{"tollbooth", withTollbooth, http.StatusOK},
	} {
		b.Run("who="+c.name, func(b *testing.B) {
			h := c.wrap(b, http.HandlerFunc(answer))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.0.0.1:4711"
			clients := []string{"1.1.1.1, 198.51.100.7"}
			for i := 0; c.name == "sluice.clients" && i < 1023; i++ {
				clients = append(clients, fmt.Sprintf("1.1.1.1, 203.0.%d.%d", i/256, i%256))
			}
			hops := []string{clients[0]}
			r.Header["X-Forwarded-For"] = hops
			w := &recorder{header: make(http.Header)}
			h.ServeHTTP(w, r) // spends what is there if it is to be denied
			wrong, i := 0, 0
			b.ReportAllocs()
			start := processTime(b)
			b.ResetTimer()
			for b.Loop() {
				hops[0] = clients[i%len(clients)]
				i++
				clear(w.header)
				w.status = http.StatusOK
				h.ServeHTTP(w, r)
				if w.status != c.want {
					wrong++
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
			if wrong > 0 {
				b.Fatalf("%d of %d answers were not %d; the last: %d %v", wrong, b.N, c.want, w.status, w.header)
			}
		})
	}
}

// recorder is a ResponseWriter that is used again and again: the server's own
// costs are none of a middleware's.
type recorder struct {
	header http.Header
	status int
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (w *recorder) WriteHeader(status int)      { w.status = status }

var body = []byte("ok")

func answer(w http.ResponseWriter, _ *http.Request) {
	if _, err := w.Write(body); err != nil {
		panic(err) // a recorder has none
	}
}

func withSluice(text string) func(*testing.B, http.Handler) http.Handler {
	return func(b *testing.B, next http.Handler) http.Handler {
		proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		m, err := httplimit.New(httplimit.Options{
			Store:   memstore.New(memstore.Options{}),
			Rules:   []policy.Rule{policy.NewRule("bench", policy.IP(), sluice.MustParseLimit(text))},
			Trusted: proxies,
			Fields:  httplimit.Draft11 | httplimit.XRateLimit,
		})
		if err != nil {
			b.Fatal(err)
		}
		return m.Wrap(next)
	}
}

func withHTTPRate(_ *testing.B, next http.Handler) http.Handler {
	key := func(r *http.Request) (string, error) { return httprate.CanonicalizeIP(r.RemoteAddr), nil }
	return httprate.LimitBy(1_000_000_000, time.Minute, key)(next)
}

func withTollbooth(_ *testing.B, next http.Handler) http.Handler {
	lim := tollbooth.NewLimiter(1_000_000_000, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
	lim.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
	return tollbooth.HTTPMiddleware(lim)(next)
}
