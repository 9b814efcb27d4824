// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

// leased is a configuration with one limit of 1000, leased as lease says.
func leased(t *testing.T, store, lease string) string {
	t.Helper()
	return fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q}}
rules:
  - {name: hot, failure: closed, limits: 1000/h sliding-log%s}
`, named(t, "up"), store, lease)
}

// inHand returns how many units a gateway has leased and not spent.
func inHand(t *testing.T, s *running) float64 {
	t.Helper()
	m := s.metrics(t)
	return m[`sluice_lease_units_total{outcome="leased",store="redis"}`] - m[`sluice_lease_units_total{outcome="returned",store="redis"}`] -
		m[`sluice_lease_units_total{outcome="lost",store="redis"}`] - m[`sluice_lease_decisions_total{store="redis",verdict="allowed"}`]
}

// spend asks for n requests and returns how many were let through.
func spend(t *testing.T, s *running, n int) (passed int) {
	t.Helper()
	for range n {
		switch got := s.get(t, "/"); got.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	return passed
}

// Gateways lease a hot key: each asks the store less often than it decides, and
// what one of them has in hand when it stops, the other can spend.
func TestLease(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	yaml := leased(t, server.URL(), ", lease: {ttl: 10s, units: 100}")
	first, second := start(t, yaml), start(t, yaml)
	passed := spend(t, first, 100)
	until(t, "units in hand", func() bool {
		if inHand(t, first) > 0 {
			return true
		}
		passed += spend(t, first, 1)
		return false
	})
	m := first.metrics(t)
	calls, decisions := m[`sluice_lease_store_calls_total{store="redis"}`], m[`sluice_decisions_total{limit="sliding-log.hour",scope="hot",verdict="allowed"}`]
	if int(decisions) != passed || calls == 0 || calls > decisions/2 {
		t.Errorf("the store was asked %v times for %v decisions, %d of them seen", calls, decisions, passed)
	}
	first.end(t)
	until(t, "all units to be spent", func() bool {
		passed += spend(t, second, 10)
		return passed >= 1000
	})
	if passed += spend(t, second, 50); passed != 1000 {
		t.Errorf("%d passed, want 1000", passed)
	}
}

// A lease that comes, changes and goes while requests come in keeps what the
// key has spent.
func TestLeaseChanges(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := start(t, leased(t, server.URL(), ""))
	passed := spend(t, s, 100)
	for i, lease := range []string{
		", lease: true", ", lease: {ttl: 20s, units: 50}", "", ", lease: {ttl: 1s, units: 50}", ", lease: {ttl: 1s, units: 5, nodes: 3}", "",
	} {
		before := s.hash(t)
		s.change(t, leased(t, server.URL(), lease), "version ")
		until(t, "the change", func() bool { return s.hash(t) != before })
		asked := s.metrics(t)[`sluice_lease_store_calls_total{store="redis"}`]
		passed += spend(t, s, 100)
		if got := s.metrics(t)[`sluice_lease_store_calls_total{store="redis"}`] > asked; got != (lease != "") {
			t.Errorf("change %d to %q: a lease was asked for: %v", i+1, lease, got)
		}
	}
	passed += spend(t, s, 1000)
	if passed > 1000 || passed < 900 {
		t.Errorf("%d passed, want at most 1000, and most of them", passed)
	}
}
