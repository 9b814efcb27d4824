// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/server/metrics"
)

// nowhere is a response that is thrown away.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(int)             {}

// BenchmarkRequest is a request to the gateway without what lies around it, sockets
// and HTTP: what is done for it, and counted.
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
			file := "rules: [{name: api, by: header.X-User, limits: " + c.limit + "}]\n"
			parsed, err := config.Parse("bench.yaml", []byte(file))
			if err != nil {
				b.Fatal(err)
			}
			s := &server{
				Options: Options{Config: parsed, Out: io.Discard, Log: discard(), Audit: filepath.Join(b.TempDir(), "audit")},
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
			var all atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/?userId=x", nil)
				w := &nowhere{header: make(http.Header)}
				for pb.Next() {
					r.Header["X-User"] = []string{strconv.FormatUint(all.Add(1)*2654435761%c.keys, 10)}
					clear(w.header)
					s.runtime.ServeHTTP(w, r)
				}
			})
			b.StopTimer()
			stop()
			<-ended
			if err := s.close(context.WithoutCancel(b.Context())); err != nil {
				b.Fatal(err)
			}
		})
	}
}
