// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/httpserver"
	"github.com/sluicegate/sluice/server/internal/metrics"
)

// nowhere is a response that discards its body.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header              { return w.header }
func (w *nowhere) Write(p []byte) (int, error)      { return len(p), nil }
func (w *nowhere) WriteHeader(int)                  {}
func (w *nowhere) SetWriteDeadline(time.Time) error { return nil }

// newBenchServer returns a server of one rule, which the benchmark closes.
func newBenchServer(b *testing.B, rule string) *server {
	b.Helper()
	parsed, err := config.Parse("bench.yaml", []byte("rules: [{name: api, "+rule+"}]\n"))
	if err != nil {
		b.Fatal(err)
	}
	s := &server{
		Options: Options{Config: parsed, Out: io.Discard, Log: slog.New(slog.DiscardHandler), Audit: filepath.Join(b.TempDir(), "audit")},
		metrics: metrics.New(),
	}
	if err := s.wire(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.api.Run(ctx)
	}()
	b.Cleanup(func() {
		stop()
		<-ended
		if err := s.close(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return s
}

// handlerOf returns the handler of a listener's requests.
func handlerOf(b *testing.B, s *server) http.Handler {
	b.Helper()
	f, err := s.runtime.proxy.Kind().New(&config.Listener{})
	if err != nil {
		b.Fatal(err)
	}
	use, err := f.Prepare(s.runtime.snapshotOf(s.runtime.current.Load(), &config.Listener{}))
	if err != nil {
		b.Fatal(err)
	}
	use()
	return f.(http.Handler) //nolint:forcetypeassert // the front of HTTP is one
}

// BenchmarkRequest measures a request's decision and counting in the gateway, without sockets
// and HTTP.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit string
		keys  uint64
	}{
		{"allowed, 1000 keys", "1000000000/s", 1000},
		{"allowed, a million keys", "1000000000/s", 1 << 20},
		{"denied, 1000 keys", "1/day", 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			handler := handlerOf(b, newBenchServer(b, "by: header.X-User, limits: "+c.limit))
			var all atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/?userId=x", nil)
				w := &nowhere{header: make(http.Header)}
				for pb.Next() {
					r.Header["X-User"] = []string{strconv.FormatUint(all.Add(1)*2654435761%c.keys, 10)}
					clear(w.header)
					handler.ServeHTTP(w, r)
				}
			})
		})
	}
}

// BenchmarkHandlers measures a request through all handlers of a listener, around one that
// does nothing. bare leaves out the limits, so the difference is their cost with header fields
// and counting. It reports the CPU time of the process, as other processes may use the
// machine.
func BenchmarkHandlers(b *testing.B) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct{ name, limit string }{{"bare", "1/s"}, {"allowed", "1000000000/s"}, {"denied", "1/day"}} {
		b.Run("who="+c.name, func(b *testing.B) {
			s := newBenchServer(b, "by: ip, limits: "+c.limit)
			handler := httpserver.New(handlerOf(b, s), s.runtime.clients).Handler()
			if c.name == "bare" {
				handler = httpserver.New(nothing, s.runtime.clients).Handler()
			}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			w := &nowhere{header: make(http.Header)}
			before := cpuTime(b)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, r)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
