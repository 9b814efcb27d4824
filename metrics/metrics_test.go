// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// measured are Metrics in a registry of their own.
type measured struct {
	*metrics.Metrics
	registry *prometheus.Registry
}

func newMetrics(t testing.TB) *measured {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m, err := metrics.New(metrics.Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	return &measured{m, registry}
}

// scraped returns every series of the page with its value.
func scraped(t *testing.T, m *measured) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return testkit.Metrics(t, w.Body.String())
}

// decisions returns the series of decisions that are not 0.
func decisions(t *testing.T, m *measured) map[string]float64 {
	t.Helper()
	all := scraped(t, m)
	maps.DeleteFunc(all, func(name string, v float64) bool {
		return !strings.HasPrefix(name, "sluice_decisions_total") || v == 0
	})
	return all
}

func series(scope, limit, verdict string) string {
	return fmt.Sprintf("sluice_decisions_total{limit=%q,scope=%q,verdict=%q}", limit, scope, verdict)
}

// fixed is a memory store whose clock stands still.
func fixed() *memstore.Store {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return memstore.New(memstore.Options{Now: func() time.Time { return now }})
}

// TestCountsTheLimitThatBinds: a decision counts once, for the limit that binds, in any of its
// charges.
func TestCountsTheLimitThatBinds(t *testing.T) {
	m := newMetrics(t)
	store := m.Wrap(fixed(), "memory")
	user := testkit.Plan(t, "user", "few: 2/min fixed-window", "many: 9/min fixed-window")
	tenant := testkit.Plan(t, "tenant", "wide: 100/min fixed-window", "narrow: 4/min fixed-window")
	take := func(key string) sluice.Decision {
		d, err := store.Take(t.Context(), sluice.Request{
			Charge: sluice.Charge{Plan: user, Key: key, Cost: 1},
			More:   []sluice.Charge{{Plan: tenant, Key: "t", Cost: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, key := range []string{"a", "a", "a", "b", "c", "d", "d"} {
		take(key)
	}
	// The third of user a is denied by few; b and c leave the tenant nothing,
	// so that d is denied by narrow.
	want := map[string]float64{
		series("user", "few", "allowed"):      3, // a, a, b: few has the least left
		series("user", "few", "denied"):       1,
		series("tenant", "narrow", "allowed"): 1, // c
		series("tenant", "narrow", "denied"):  2,
	}
	if got := decisions(t, m); !maps.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
}

// TestNothingIsLost: every operation, alone or in batches, valid or not, counts as exactly one
// decision, one error, or one operation that decides nothing.
func TestNothingIsLost(t *testing.T) {
	m := newMetrics(t)
	failing := &testkit.Store{Store: fixed()}
	failing.Before = func(context.Context, sluice.Request) error {
		if failing.Calls()%5 == 0 {
			return errors.New("store is down")
		}
		return nil
	}
	store := m.Wrap(failing, "memory")
	plan := testkit.Plan(t, "s", "a: 3/min sliding-log", "b: 50/min")
	var reqs []sluice.Request
	for i := range 400 {
		reqs = append(reqs, sluice.Request{
			Op:     []sluice.Op{0, 1, 2, 3, 4, 5, 8, sluice.OpExtend + 1}[i%8], // 7 operations and one invalid value
			Charge: sluice.Charge{Plan: plan, Key: strconv.Itoa(i % 11), Cost: int64(i%6) - 1},
			At:     sluice.Instant(i % 3),
		})
	}
	var allowed, denied, errs, deciding float64
	count := func(op sluice.Op, d sluice.Decision, err error) {
		decides := op == sluice.OpTake || op == sluice.OpTakeUpTo || op == sluice.OpReserve
		switch {
		case err != nil:
			errs++
		case decides && d.Allowed:
			allowed++
		case decides:
			denied++
		}
		if decides {
			deciding++
		}
	}
	for i, req := range reqs[:200] {
		d, err := store.Take(t.Context(), req)
		count(reqs[i].Op, d, err)
	}
	for batch := range slices.Chunk(reqs[200:], 20) {
		out := make([]sluice.Result, len(batch))
		err := sluice.TakeBatch(t.Context(), store, batch, out)
		for i := range batch {
			if err != nil {
				out[i].Err = err
			}
			count(batch[i].Op, out[i].Decision, out[i].Err)
		}
	}
	got := scraped(t, m)
	sum := func(prefix, part string) (n float64) {
		for name, v := range got {
			if strings.HasPrefix(name, prefix) && strings.Contains(name, part) {
				n += v
			}
		}
		return n
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"allowed", sum("sluice_decisions_total", `verdict="allowed"`), allowed},
		{"denied", sum("sluice_decisions_total", `verdict="denied"`), denied},
		{"errors", sum("sluice_operation_errors_total", ""), errs},
		{"operations", sum("sluice_operations_total", ""), 400},
		{"operations that are none", sum("sluice_operations_total", "unknown"), 50},
		{"durations", sum("sluice_operation_duration_seconds_count", ""), 400},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	var of float64
	for _, op := range []string{"take", "take-up-to", "reserve"} {
		of += got[fmt.Sprintf("sluice_operations_total{op=%q,store=\"memory\"}", op)] - got[fmt.Sprintf("sluice_operation_errors_total{op=%q,store=\"memory\"}", op)]
	}
	if of != allowed+denied || allowed == 0 || denied == 0 || errs == 0 || deciding == 0 {
		t.Errorf("%v operations decided, %v allowed + %v denied of %v; %v errors", of, allowed, denied, deciding, errs)
	}
}

// TestNoKeyIsALabel: the number of series does not grow with the clients.
func TestNoKeyIsALabel(t *testing.T) {
	m := newMetrics(t)
	mem := memstore.New(memstore.Options{MaxKeys: 100})
	if err := m.WatchMemory(mem.Stats, "memory"); err != nil {
		t.Fatal(err)
	}
	lim, err := sluice.New(m.Wrap(mem, "memory"), "s", sluice.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	take := func(key string) {
		if _, err := lim.Take(t.Context(), key, 1); err != nil {
			t.Fatal(err)
		}
	}
	take("first")
	take("first")
	before := scraped(t, m)
	for i := range 1000 {
		take("visitor-" + strconv.Itoa(i))
	}
	after := scraped(t, m)
	// The runtime's own series do not count: some appear with time.
	of := func(all map[string]float64) []string {
		return slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, float64) bool) {
			for name, v := range all {
				if strings.HasPrefix(name, "sluice_") && !yield(name, v) {
					return
				}
			}
		})))
	}
	if got, want := of(after), of(before); !slices.Equal(got, want) {
		t.Errorf("series\n%v\nwant\n%v", got, want)
	}
	for name := range after {
		if strings.Contains(name, "visitor") || strings.Contains(name, "first") {
			t.Errorf("a key in %s", name)
		}
	}
	stats := mem.Stats()
	if got := after[`sluice_keys{store="memory"}`]; got != float64(stats.States) || got < 100 {
		t.Errorf("sluice_keys %v, want %d", got, stats.States)
	}
	if got := after[`sluice_evictions_total{store="memory"}`]; got != float64(stats.Evicted) || got < 500 {
		t.Errorf("sluice_evictions_total %v, want %d", got, stats.Evicted)
	}
}

// TestPlansComeAndGo: counters stay correct with more plans than Metrics keep.
func TestPlansComeAndGo(t *testing.T) {
	m := newMetrics(t)
	store := m.Wrap(fixed(), "memory")
	const reloads = 3000
	for range reloads {
		plan := testkit.Plan(t, "s", "a: 5/min fixed-window")
		if _, err := store.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{series("s", "a", "allowed"): 5, series("s", "a", "denied"): reloads - 5}
	if got := decisions(t, m); !maps.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
}

func TestCountHTTP(t *testing.T) {
	m := newMetrics(t)
	for v := evaluate.Allowed; v <= evaluate.FailedClosed; v++ {
		for range v + 1 {
			m.CountHTTP(nil, httplimit.Event{Event: evaluate.Event{Verdict: v}})
		}
	}
	m.CountHTTP(nil, httplimit.Event{Event: evaluate.Event{Verdict: 200}}) // no verdict, and breaks nothing
	got := scraped(t, m)
	for v := evaluate.Allowed; v <= evaluate.FailedClosed; v++ {
		name := fmt.Sprintf("sluice_requests_total{verdict=%q}", v)
		if got[name] != float64(v)+1 {
			t.Errorf("%s %v, want %d", name, got[name], v+1)
		}
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	m := newMetrics(t)
	lim, err := sluice.New(m.Wrap(fixed(), "memory"), "s", sluice.PerMinute(100))
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(1000, func() {
		if _, err := lim.Take(t.Context(), "k", 1); err != nil {
			t.Error(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// BenchmarkTake compares a store with the same store wrapped.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name  string
		store sluice.Store
	}{
		{"bare", memstore.New(memstore.Options{})},
		{"wrapped", newMetrics(b).Wrap(memstore.New(memstore.Options{}), "memory")},
	} {
		lim, err := sluice.New(c.store, "s", sluice.PerSecond(1_000_000_000))
		if err != nil {
			b.Fatal(err)
		}
		take := func(b *testing.B) {
			if _, err := lim.Take(context.Background(), "k", 1); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				take(b)
			}
		})
	}
}

// TestAnyName: no name of a scope, a limit or a store breaks the page.
func TestAnyName(t *testing.T) {
	m := newMetrics(t)
	s := m.Wrap(fixed(), "\xff\"\n")
	if _, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: testkit.Plan(t, "\xfe", "a: 1/min"), Key: "k", Cost: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := decisions(t, m); got[series("\uFFFD", "a", "allowed")] != 1 {
		t.Errorf("got %v", got)
	}
}
