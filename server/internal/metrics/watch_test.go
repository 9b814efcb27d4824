// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/metrics"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// scraped returns every series of the page with its value.
func scraped(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return testkit.Metrics(t, w.Body.String())
}

func TestCertificates(t *testing.T) {
	m := metrics.New()
	m.WatchCertificates(func() map[string]metrics.Certificate {
		return map[string]metrics.Certificate{
			"a": {NotAfter: time.Unix(1_700_000_000, 0), Current: true},
			"b": {NotAfter: time.Unix(1_600_000_000, 0)},
		}
	})
	got := scraped(t, m)
	for series, want := range map[string]float64{
		`sluice_certificate_not_after_seconds{listener="a"}`: 1_700_000_000,
		`sluice_certificate_not_after_seconds{listener="b"}`: 1_600_000_000,
		`sluice_certificate_current{listener="a"}`:           1,
		`sluice_certificate_current{listener="b"}`:           0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s: got %v, want %v", series, v, want)
		}
	}
}

// TestStats: every number is in its own series.
func TestStats(t *testing.T) {
	m := metrics.New()
	m.WatchHeld(func() metrics.Held {
		return metrics.Held{Requests: 51, Full: 52, ShareFull: 53, ReadAhead: 54, Stopped: 55}
	})
	m.WatchTCP(func() map[string]tcp.Stats { return map[string]tcp.Stats{"db": {Open: 31, Received: 32, Sent: 33}} })
	m.WatchAbandoned(func() gateway.AbandonedStats {
		return gateway.AbandonedStats{Waiting: 41, Seen: 42, Lost: 43, Unsent: 44, Full: 45}
	})
	m.WatchCutOff(func() metrics.CutOff { return metrics.CutOff{SlowBodies: 61, LongRequests: 62} })
	m.WatchLingering(func() gateway.LingeringStats {
		return gateway.LingeringStats{Open: 91, Client: 92, Bound: 93, Full: 94}
	})
	m.WatchUpstreams(func() gateway.ConnectionStats {
		return gateway.ConnectionStats{Open: 71, Full: 72, NoDescriptor: 73, NoPort: 74}
	})
	m.WatchClientMemory(func() gateway.MemoryStats {
		return gateway.MemoryStats{Most: 81, Taken: 82, Connections: 83, Headers: 84, Requests: 85}
	})
	m.WatchPolicy(new(tally.Tally), func() metrics.Config {
		return metrics.Config{File: "a.yaml", Hash: "cafe", Loaded: time.UnixMilli(41_500), Current: true}
	})
	got := scraped(t, m)
	for series, want := range map[string]float64{
		"sluice_delayed_requests": 51, `sluice_delays_refused_total{reason="full"}`: 52, `sluice_delays_refused_total{reason="share"}`: 53,
		"sluice_read_ahead_bytes": 54, "sluice_read_ahead_stopped_total": 55,
		`sluice_tcp_open_connections{listener="db"}`:                 31,
		`sluice_tcp_bytes_total{direction="received",listener="db"}`: 32, `sluice_tcp_bytes_total{direction="sent",listener="db"}`: 33,
		"sluice_abandoned": 41, `sluice_abandoned_total{end="seen"}`: 42, `sluice_abandoned_total{end="lost"}`: 43,
		`sluice_abandoned_total{end="unsent"}`: 44, `sluice_abandoned_total{end="full"}`: 45,
		`sluice_cut_off_total{bound="least_body_rate"}`: 61, `sluice_cut_off_total{bound="longest_request"}`: 62,
		"sluice_lingering_connections": 91, `sluice_lingering_total{end="client"}`: 92,
		`sluice_lingering_total{end="bound"}`: 93, `sluice_lingering_total{end="full"}`: 94,
		"sluice_upstream_connections": 71, `sluice_upstream_connections_refused_total{reason="full"}`: 72,
		`sluice_upstream_connections_refused_total{reason="descriptors"}`: 73, `sluice_upstream_connections_refused_total{reason="ports"}`: 74,
		"sluice_client_memory_bytes": 82, "sluice_client_memory_limit_bytes": 81, `sluice_client_memory_refused_total{what="connection"}`: 83,
		`sluice_client_memory_refused_total{what="header"}`: 84, `sluice_client_memory_refused_total{what="request"}`: 85,
		`sluice_config_info{file="a.yaml",hash="cafe"}`: 1, "sluice_config_loaded_seconds": 41.5, "sluice_config_current": 1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s: got %v, %v, want %v", series, v, ok, want)
		}
	}
}
