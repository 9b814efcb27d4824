// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestPartOfABody: each part of a response of known length is passed on before the rest has
// come.
func TestPartOfABody(t *testing.T) {
	const parts, pause = 4, 10 * time.Second
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(parts*8))
		for i := range parts {
			if i > 0 {
				time.Sleep(pause)
			}
			_, _ = io.WriteString(w, strings.Repeat(strconv.Itoa(i), 8)) // fails if the client has left
			_ = http.NewResponseController(w).Flush()
		}
	})
	issuer := httptest.NewTLSServer(nil) // lends its certificate
	issuer.Close()
	for _, upstream := range []string{"http://up.example", "https://up.example", "h2c://up.example"} {
		t.Run(upstream, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := overPipes(t, handler).Dial
				if strings.HasPrefix(upstream, "https:") {
					secure := testkit.NewPipes()
					defer secure.Close() //nolint:errcheck // returns nil
					server := http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
					defer server.Close() //nolint:errcheck // it has no files
					go func() { _ = server.Serve(tls.NewListener(secure, &tls.Config{Certificates: issuer.TLS.Certificates})) }()
					dial = secure.Dial
				}
				g, err := New(upstream, Options{Dial: dial, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				TrustAny(t, g)
				front := overPipes(t, WithDeadlines(g, standing))
				client := &http.Transport{DialContext: front.Dial}
				for range 2 { // the second on the connection of the first
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://front.example/", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					resp, err := client.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					for i := range parts {
						part := make([]byte, 8)
						if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != strings.Repeat(strconv.Itoa(i), 8) {
							t.Fatalf("read %q, %v", part, err)
						}
						if late := time.Since(began) - time.Duration(i)*pause; late > 2*flushInterval {
							t.Errorf("part %d came %v after it was sent", i, late)
						}
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
				}
				client.CloseIdleConnections()
				g.Close()
				time.Sleep(time.Hour)
			})
		})
	}
}
