// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// BenchmarkLimited measures a request through a limit and a Gateway to an upstream, with real
// sockets to the upstream. A request that settles may outlive its client.
func BenchmarkLimited(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "hello"); err != nil {
			b.Error(err)
		}
	}))
	defer upstream.Close()
	for _, c := range []struct{ name, rule string }{
		{"plain", "limits: 1000000000/s"},
		{"settles", "limits: 1000000000/s, when: {response: [401], charge: first}"},
		{"in flight", "limits: 1000000000/s, in_flight: 65536"},
	} {
		b.Run(c.name, func(b *testing.B) {
			next, err := gateway.New(upstream.URL, gateway.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer next.Close()
			h := newMiddleware(b, httplimit.Options{Policy: rules(b, "  - {name: a, by: ip, "+c.rule+"}"), Store: memstore.New(memstore.Options{})}).Wrap(next)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					// The context of a server's request ends with its handler.
					own, end := context.WithCancel(ctx)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequestWithContext(own, http.MethodGet, "/", http.NoBody))
					end()
					if w.Code != http.StatusOK {
						b.Errorf("status %d", w.Code)
						return
					}
				}
			})
		})
	}
}
