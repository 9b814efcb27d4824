// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/remote"
)

// TestWatchShared: every statistic is in its series.
func TestWatchShared(t *testing.T) {
	m := newMetrics(t)
	err := m.WatchShared(func() remote.Stats {
		return remote.Stats{
			Healthy: true, Outages: 2, Opened: 3, DecidedLocally: 4, Refused: 5, Timeouts: 6, Errors: 7, Skipped: 8, Overloaded: 9,
			InFlight: 10, Owed: 11, Charged: 12, Dropped: 13, GivenBack: 14, NotGivenBack: 15, Unreleased: 17,
			Denied: 16,
			Leases: remote.LeaseStats{Allowed: 21, Denied: 22, Asked: 23, Leased: 24, Returned: 25, Lost: 26, Untracked: 27},
		}
	}, "redis")
	if err != nil {
		t.Fatal(err)
	}
	got := scraped(t, m)
	for series, want := range map[string]float64{
		`sluice_store_up{store="redis"}`: 1, `sluice_store_outages_total{store="redis"}`: 2,
		`sluice_degraded_total{policy="open",store="redis"}`: 3, `sluice_degraded_total{policy="local",store="redis"}`: 4, `sluice_degraded_total{policy="closed",store="redis"}`: 5,
		`sluice_store_calls_failed_total{reason="timeout",store="redis"}`: 6, `sluice_store_calls_failed_total{reason="error",store="redis"}`: 7,
		`sluice_store_calls_failed_total{reason="skipped",store="redis"}`: 8, `sluice_store_calls_failed_total{reason="crowded",store="redis"}`: 9,
		`sluice_store_calls_in_flight{store="redis"}`: 10, `sluice_store_owed_keys{store="redis"}`: 11,
		`sluice_store_owed_units_total{outcome="charged",store="redis"}`: 12, `sluice_store_owed_units_total{outcome="dropped",store="redis"}`: 13,
		`sluice_store_refunds_total{store="redis"}`: 14, `sluice_store_refunds_failed_total{store="redis"}`: 15, `sluice_denials_from_memory_total{store="redis"}`: 16,
		`sluice_lease_decisions_total{store="redis",verdict="allowed"}`: 21, `sluice_lease_decisions_total{store="redis",verdict="denied"}`: 22,
		`sluice_lease_store_calls_total{store="redis"}`: 23, `sluice_lease_units_total{outcome="leased",store="redis"}`: 24,
		`sluice_lease_units_total{outcome="returned",store="redis"}`: 25, `sluice_lease_units_total{outcome="lost",store="redis"}`: 26, `sluice_lease_untracked_total{store="redis"}`: 27,
		`sluice_store_unreleased_slots{store="redis"}`: 17,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s: got %v, %v, want %v", series, v, ok, want)
		}
	}
}

// TestWatchSeveral: each store has a name, and each name one store.
func TestWatchSeveral(t *testing.T) {
	m := newMetrics(t)
	for i, name := range []string{"a", "b\xff"} {
		err := m.WatchMemory(func() memstore.Stats { return memstore.Stats{States: i + 1} }, name)
		if err != nil {
			t.Fatal(err)
		}
	}
	got := scraped(t, m)
	if got[`sluice_keys{store="a"}`] != 1 || got["sluice_keys{store=\"b\uFFFD\"}"] != 2 {
		t.Errorf("got %v", got)
	}
	err := m.WatchMemory(memstore.New(memstore.Options{}).Stats, "a")
	if err == nil || !strings.Contains(err.Error(), `metrics: store "a"`) {
		t.Errorf("the same name: %v", err)
	}
}

// TestJoins: if names are taken already, nothing is registered and an error says so.
func TestJoins(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_build_info", Help: "Mine."}))
	if m, err := metrics.New(metrics.Options{Registerer: registry}); err == nil {
		t.Fatalf("%v joins a registry that has one of its names", m)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Errorf("%v in the registry, %v; want one", families, err)
	}
	registry = prometheus.NewRegistry()
	if _, err := metrics.New(metrics.Options{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	_, err = metrics.New(metrics.Options{Registerer: registry})
	if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); !ok {
		t.Errorf("twice: %v", err)
	}
}
