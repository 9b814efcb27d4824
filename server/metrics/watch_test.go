// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/gateway/tcp"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/metrics"
	"github.com/sluicegate/sluice/server/tally"
)

func TestCertificates(t *testing.T) {
	m := metrics.New()
	m.WatchCertificates(func() map[string]metrics.Certificate {
		return map[string]metrics.Certificate{
			"a": {NotAfter: time.Unix(1_700_000_000, 0), Current: true},
			"b": {NotAfter: time.Unix(1_600_000_000, 0)},
		}
	})
	got := scrape(t, m)
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

// TestStats: every number is in the series that is about it.
func TestStats(t *testing.T) {
	m := metrics.New()
	m.WatchShared(func() remote.Stats {
		return remote.Stats{
			Healthy: true, Outages: 2, Opened: 3, Localized: 4, Refused: 5, Timeouts: 6, Errors: 7, Skipped: 8, Crowded: 9,
			InFlight: 10, Owed: 11, Charged: 12, Dropped: 13, GivenBack: 14, NotGivenBack: 15,
			Denials: remote.DenialStats{Answered: 16},
			Leases:  remote.LeaseStats{Allowed: 21, Denied: 22, Asked: 23, Leased: 24, Returned: 25, Lost: 26, Untracked: 27},
		}
	})
	m.WatchHeld(func() metrics.Held {
		return metrics.Held{Requests: 51, Full: 52, ShareFull: 53, ReadAhead: 54, Stopped: 55}
	})
	m.WatchTCP(func() map[string]tcp.Stats { return map[string]tcp.Stats{"db": {Open: 31, Received: 32, Sent: 33}} })
	m.WatchAbandoned(func() gateway.AbandonedStats {
		return gateway.AbandonedStats{Waiting: 41, Seen: 42, Lost: 43, Unsent: 44, Full: 45}
	})
	m.WatchCutOff(func() metrics.CutOff { return metrics.CutOff{SlowBodies: 61, LongRequests: 62} })
	m.WatchUpstreams(func() gateway.ConnectionStats {
		return gateway.ConnectionStats{Open: 71, Full: 72, NoDescriptor: 73, NoPort: 74}
	})
	m.WatchClientMemory(func() gateway.MemoryStats {
		return gateway.MemoryStats{Most: 81, Taken: 82, Connections: 83, Headers: 84, Requests: 85}
	})
	m.WatchPolicy(new(tally.Tally), func() metrics.Config {
		return metrics.Config{File: "a.yaml", Hash: "cafe", Loaded: time.UnixMilli(41_500), Current: true}
	})
	got := scrape(t, m)
	for series, want := range map[string]float64{
		"sluice_store_up": 1, "sluice_store_outages_total": 2,
		`sluice_degraded_total{policy="open"}`: 3, `sluice_degraded_total{policy="local"}`: 4, `sluice_degraded_total{policy="closed"}`: 5,
		`sluice_store_calls_failed_total{reason="timeout"}`: 6, `sluice_store_calls_failed_total{reason="error"}`: 7,
		`sluice_store_calls_failed_total{reason="skipped"}`: 8, `sluice_store_calls_failed_total{reason="crowded"}`: 9,
		"sluice_store_calls_in_flight": 10, "sluice_store_owed_keys": 11,
		`sluice_store_owed_units_total{outcome="charged"}`: 12, `sluice_store_owed_units_total{outcome="dropped"}`: 13,
		"sluice_store_given_back_total": 14, "sluice_store_not_given_back_total": 15, "sluice_denials_from_memory_total": 16,
		`sluice_lease_decisions_total{verdict="allowed"}`: 21, `sluice_lease_decisions_total{verdict="denied"}`: 22,
		"sluice_lease_store_calls_total": 23, `sluice_lease_units_total{outcome="leased"}`: 24,
		`sluice_lease_units_total{outcome="returned"}`: 25, `sluice_lease_units_total{outcome="lost"}`: 26, "sluice_lease_untracked_total": 27,
		"sluice_held_requests": 51, `sluice_not_held_total{reason="full"}`: 52, `sluice_not_held_total{reason="share"}`: 53,
		"sluice_read_ahead_bytes": 54, "sluice_read_ahead_stopped_total": 55,
		`sluice_tcp_open_connections{listener="db"}`:                 31,
		`sluice_tcp_bytes_total{direction="received",listener="db"}`: 32, `sluice_tcp_bytes_total{direction="sent",listener="db"}`: 33,
		"sluice_abandoned": 41, `sluice_abandoned_total{end="seen"}`: 42, `sluice_abandoned_total{end="lost"}`: 43,
		`sluice_abandoned_total{end="unsent"}`: 44, `sluice_abandoned_total{end="full"}`: 45,
		`sluice_cut_off_total{bound="least_body_rate"}`: 61, `sluice_cut_off_total{bound="longest_request"}`: 62,
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
