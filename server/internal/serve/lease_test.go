// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// leaseQuota is the quota of leased.
var leaseQuota = testkit.Steps(300, 1000)

// leased is a configuration with one limit and the given lease.
func leased(t *testing.T, store, lease string) string {
	t.Helper()
	return fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q}}
rules:
  - {name: hot, failure: closed, limits: %d/h sliding-log%s}
`, servetest.Named(t, "up"), store, leaseQuota, lease)
}

const unitsLost = `sluice_lease_units_total{outcome="lost",store="redis"}`

// inHand returns how many units a gateway has leased and not used.
func inHand(t *testing.T, s *servetest.Gateway) float64 {
	t.Helper()
	m := s.Metrics(t)
	return m[`sluice_lease_units_total{outcome="leased",store="redis"}`] - m[`sluice_lease_units_total{outcome="returned",store="redis"}`] -
		m[unitsLost] - m[`sluice_lease_decisions_total{store="redis",verdict="allowed"}`]
}

// spend sends n requests and returns how many passed.
func spend(t *testing.T, s *servetest.Gateway, n int) (passed int) {
	t.Helper()
	for range n {
		switch got := s.Get(t, "/"); got.Status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
	}
	return passed
}

// TestLease: gateways lease a hot key. Each calls the store less often than it decides, and
// units that one returns at its stop can be used by the other.
func TestLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	yaml := leased(t, server.URL(), fmt.Sprintf(", lease: {ttl: 1m, units: %d}", leaseQuota/10))
	first, second := servetest.Start(t, yaml), servetest.Start(t, yaml)
	passed := spend(t, first, leaseQuota/10)
	testkit.Until(t, "units in hand", func() bool {
		if inHand(t, first) > 0 {
			return true
		}
		passed += spend(t, first, 1)
		return false
	})
	m := first.Metrics(t)
	calls, decisions := m[`sluice_lease_store_calls_total{store="redis"}`], m[`sluice_decisions_total{limit="sliding-log.hour",scope="hot",verdict="allowed"}`]
	if int(decisions) != passed || calls == 0 || calls > decisions/2 {
		t.Errorf("the store was asked %v times for %v decisions, %d of them seen", calls, decisions, passed)
	}
	held := int(inHand(t, first))
	first.End(t)
	states := servetest.Document[admin.KeyStates](t, second, "/v1/key?rule=hot")
	gone := leaseQuota - passed - int(states.Keys[0].Limits[0].Remaining)
	if gone > int(m[unitsLost]) && !strings.Contains(first.Logs.String(), "could not be returned") { // as on a busy machine
		t.Errorf("of %d units in hand %d were not returned; logged:\n%s", held, gone, first.Logs)
	}
	lost := 0
	testkit.Until(t, "all units to be spent or lost", func() bool {
		passed += spend(t, second, 10)
		lost = gone + int(second.Metrics(t)[unitsLost]+inHand(t, second))
		return passed+lost >= leaseQuota
	})
	if passed += spend(t, second, 50); passed > leaseQuota || passed+lost < leaseQuota {
		t.Errorf("%d passed and %d were lost, want %d", passed, lost, leaseQuota)
	}
}

// TestLeaseChanges: a lease that is added, changed and removed under load keeps the units that
// the key has spent.
func TestLeaseChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	s := servetest.Start(t, leased(t, server.URL(), ""))
	passed := spend(t, s, leaseQuota/10)
	for i, lease := range []string{
		", lease: true", ", lease: {ttl: 1m, units: 15}", "", ", lease: {ttl: 50s, units: 15}", ", lease: {ttl: 50s, units: 5, nodes: 3}", "",
	} {
		s.ChangeTo(t, leased(t, server.URL(), lease))
		asked := s.Metrics(t)[`sluice_lease_store_calls_total{store="redis"}`]
		passed += spend(t, s, leaseQuota/10)
		if got := s.Metrics(t)[`sluice_lease_store_calls_total{store="redis"}`] > asked; got != (lease != "") {
			t.Errorf("change %d to %q: a lease was asked for: %v", i+1, lease, got)
		}
	}
	passed += spend(t, s, leaseQuota)
	testkit.Until(t, "all that was leased to be spent, given back or lost", func() bool {
		passed += spend(t, s, 1)
		return passed+int(s.Metrics(t)[unitsLost]+inHand(t, s)) >= leaseQuota
	})
	if passed > leaseQuota || passed < leaseQuota*9/10 {
		t.Errorf("%d passed, want at most %d, and most of them", passed, leaseQuota)
	}
}
