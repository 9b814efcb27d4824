// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestCostKnownAfterwardsLimits runs the recipes with a cost known only after the response,
// one request at a time and eight at once: the units delivered are at most the limit's, and
// those in flight when it was reached.
func TestCostKnownAfterwardsLimits(t *testing.T) {
	megabyte := int64(testkit.Steps(100_000, 1_000_000)) // make check runs the recipe at a tenth of its size
	part := make([]byte, 1_000_000)
	upstream := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			switched(t, w, 210_000)
			return
		}
		w.Header().Set("X-Total-Tokens", r.URL.Query().Get("tokens"))
		for left, _ := strconv.Atoi(r.URL.Query().Get("bytes")); left > 0; left -= len(part) {
			if _, err := w.Write(part[:min(left, len(part))]); err != nil {
				return // the gateway has closed
			}
		}
	})
	stores := map[string]string{"memory": "", "redis": fmt.Sprintf("store: {redis: {url: %q}}\n", redistest.Start(t, redistest.Redis(t)).URL())}
	for name, store := range stores {
		for _, c := range []struct {
			name, rule, path string
			units, bound     int64 // of a response; that the limit admits
		}{
			{"bytes", fmt.Sprintf("match: {path: /files/}, by: ip, limits: %dB/day, cost: response-bytes", 1000*megabyte), fmt.Sprintf("/files/a?bytes=%d", 100*megabyte), 100 * megabyte, 1000 * megabyte},
			{"tokens", "by: header.X-Team, limits: 100000/min, cost: {response_header: X-Total-Tokens, most: 200000, estimate: 1000}", "/?tokens=40000", 40_000, 200_000},
			{"large", "by: ip, limits: 100KB/day, cost: response-bytes", "/?bytes=500000", 500_000, 100_000},
		} {
			for _, atOnce := range []int{1, 8} {
				t.Run(fmt.Sprintf("%s, %s, %d at once", name, c.name, atOnce), func(t *testing.T) {
					s := servetest.Start(t, fmt.Sprintf("upstream: %s\n%srules: [{name: %s-%d, failure: closed, %s}]\n", upstream, store, c.name, atOnce, c.rule))
					if name == "redis" {
						testkit.Until(t, "the store to be connected", func() bool { return s.Get(t, "/elsewhere?tokens=0", "X-Team", "none").Status == http.StatusOK })
					}
					var delivered, lost atomic.Int64
					denied := false
					for sets := 0; !denied && sets < 30; sets++ {
						var group sync.WaitGroup
						var passed atomic.Int64
						for range atOnce {
							group.Go(func() {
								switch a := s.Get(t, c.path, "X-Team", "a"); a.Status {
								case http.StatusOK:
									passed.Add(1)
									delivered.Add(c.units)
								case http.StatusTooManyRequests:
								case http.StatusServiceUnavailable: // the store's, on a busy machine
									lost.Add(1)
								default:
									t.Errorf("%d %s", a.Status, a.Body)
								}
							})
						}
						group.Wait()
						denied = passed.Load()+lost.Load() == 0
						lost.Store(0)
					}
					if strings.Contains(s.Logs.String(), "the store failed") {
						t.Log("the machine was too slow for the store: units were not charged")
						return
					}
					if most := c.bound + int64(atOnce)*c.units; !denied || delivered.Load() > most {
						t.Errorf("%d units were delivered, denied %v: want at most %d, and then a denial", delivered.Load(), denied, most)
					}
				})
			}
		}
		t.Run(name+", websocket", func(t *testing.T) {
			t.Parallel()
			s := servetest.Start(t, fmt.Sprintf("upstream: %s\n%srules: [{name: ws, by: ip, limits: 1KB/min, cost: response-bytes}]\n", upstream, store))
			status := s.Ask(t, http.MethodGet, "/v1/overview", "").Body
			if limit := "1KB/min debt 10KB"; !strings.Contains(status, limit) || !strings.Contains(s.Banner, limit+": at most 2 KB in any minute, plus the requests in flight") {
				t.Errorf("status or start do not show the limit as it counts:\n%s\n%s", status, s.Banner)
			}
			conn := servetest.Dial(t, s.URL, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if text, err := io.ReadAll(conn); len(text) < 210_000 || err != nil {
				t.Fatalf("%d bytes came: %v", len(text), err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			testkit.Until(t, "the bytes to be charged", func() bool { return s.Get(t, "/?bytes=1").Status == http.StatusTooManyRequests })
		})
	}
}

// switched takes the connection and sends n bytes after a 101.
func switched(t *testing.T, w http.ResponseWriter, n int) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+strings.Repeat("x", n)) // the client counts
	_ = conn.Close()
}
