// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// of returns the series with a prefix, without those of buckets and sums.
func of(all map[string]float64, prefix string) map[string]float64 {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, prefix) || strings.Contains(name, "_bucket") || strings.Contains(name, "_sum")
	})
	return all
}

// TestByPattern: a program's own handlers are measured by the patterns of its mux, and denials
// separately.
func TestByPattern(t *testing.T) {
	m := newMetrics(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "0" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mw, err := httplimit.New(httplimit.Options{
		Store: m.Wrap(memstore.New(memstore.Options{}), "memory"), OnDecision: m.CountHTTP, OnEnd: m.EndHTTP,
		Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerHour(5))},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := mw.Wrap(mux)
	for _, target := range []string{"GET /items/1", "GET /items/2", "HEAD /items/2", "GET /items/0", "BREW /pots/1", "GET /items/3"} {
		method, path, _ := strings.Cut(target, " ")
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	want := map[string]float64{
		`sluice_http_responses_total{class="2xx",route="GET /items/{id}"}`:                      3,
		`sluice_http_responses_total{class="5xx",route="GET /items/{id}"}`:                      1,
		`sluice_http_responses_total{class="4xx",route="other"}`:                                2, // no pattern fits, and denied
		`sluice_http_request_duration_seconds_count{route="GET /items/{id}",verdict="allowed"}`: 4,
		`sluice_http_request_duration_seconds_count{route="other",verdict="allowed"}`:           1,
		`sluice_http_request_duration_seconds_count{route="other",verdict="denied"}`:            1,
	}
	if got := of(scraped(t, m), "sluice_http_"); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestUpstream: the upstream's answers, or the reasons why it did not answer.
func TestUpstream(t *testing.T) {
	m := newMetrics(t)
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	late := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	for _, u := range []httplimit.Upstream{
		{},
		{URL: "http://a", Status: 200, Header: time.Millisecond},
		{URL: "http://a", Route: "/api", Status: 503, Header: time.Millisecond},
		{URL: "http://a", Err: dial},
		{URL: "http://a", Err: fmt.Errorf("slow: %w", late)},
		{URL: "http://a", Err: context.DeadlineExceeded},
		{URL: "http://a", Err: context.Canceled},
		{URL: "http://a", Err: http.ErrServerClosed},
		{URL: "http://a", Status: 200, Header: time.Millisecond, Err: io.ErrUnexpectedEOF},
		{URL: "http://a", Err: io.ErrUnexpectedEOF},
		{URL: "http://a", Status: 499},
	} {
		s := &httplimit.Summary{Upstream: &u, Status: u.Status, Took: time.Second}
		if u.URL != "" && s.Status == 0 {
			s.Status = http.StatusBadGateway
		}
		if errors.Is(u.Err, context.Canceled) {
			s.Status = 499
		}
		m.EndHTTP(httptest.NewRequest(http.MethodGet, "/", nil), s)
	}
	want := map[string]float64{
		`sluice_upstream_responses_total{class="2xx",route="/"}`:    2,
		`sluice_upstream_responses_total{class="4xx",route="/"}`:    1,
		`sluice_upstream_responses_total{class="5xx",route="/api"}`: 1,
		`sluice_upstream_errors_total{reason="connect",route="/"}`:  1,
		`sluice_upstream_errors_total{reason="timeout",route="/"}`:  2,
		`sluice_upstream_errors_total{reason="client",route="/"}`:   1,
		`sluice_upstream_errors_total{reason="stop",route="/"}`:     1,
		`sluice_upstream_errors_total{reason="broken",route="/"}`:   1,
		`sluice_upstream_errors_total{reason="error",route="/"}`:    1,
		`sluice_upstream_duration_seconds_count{route="/"}`:         2,
		`sluice_upstream_duration_seconds_count{route="/api"}`:      1,
	}
	got := scraped(t, m)
	if got := of(got, "sluice_upstream_"); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	want = map[string]float64{
		`sluice_http_responses_total{class="2xx",route="/"}`:      2,
		`sluice_http_responses_total{class="4xx",route="/"}`:      1,
		`sluice_http_responses_total{class="5xx",route="/"}`:      5,
		`sluice_http_responses_total{class="5xx",route="/api"}`:   1,
		`sluice_http_responses_total{class="left",route="/"}`:     1,
		`sluice_http_responses_total{class="none",route="other"}`: 1,
	}
	if got := of(got, "sluice_http_responses"); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestNotTimed: a switched connection and a request for a client's own limits have no
// duration.
func TestNotTimed(t *testing.T) {
	m := newMetrics(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	m.EndHTTP(r, &httplimit.Summary{Status: http.StatusSwitchingProtocols, Took: time.Hour})
	m.EndHTTP(r, &httplimit.Summary{Status: http.StatusOK, Own: true})
	m.EndHTTP(r, &httplimit.Summary{Status: 999, Event: httplimit.Event{Event: evaluate.Event{Verdict: 77}}})
	want := map[string]float64{
		`sluice_http_responses_total{class="1xx",route="other"}`:  1,
		`sluice_http_responses_total{class="2xx",route="other"}`:  1,
		`sluice_http_responses_total{class="none",route="other"}`: 1,
	}
	if got := of(scraped(t, m), "sluice_http_"); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestRoutesAreBounded: with any names of routes there are at most maxRoutes.
func TestRoutesAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(metrics.Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * 1000 {
		for range 2 {
			m.End(&metrics.Outcome{Route: fmt.Sprintf("/%d\xff", i), Status: 200})
		}
	}
	n := len(of(scraped(t, &measured{m, registry}), "sluice_http_responses_total"))
	if want := 1000 + 1; n != want {
		t.Errorf("%d series, want %d", n, want)
	}
}

// TestBuckets: from the buckets, a p99 of 1 to 50 ms is accurate to within a half.
func TestBuckets(t *testing.T) {
	for _, p99 := range []time.Duration{time.Millisecond, 2500 * time.Microsecond, 4 * time.Millisecond, 9 * time.Millisecond, 17 * time.Millisecond, 42 * time.Millisecond} {
		m := newMetrics(t)
		for range 100 {
			m.EndHTTP(httptest.NewRequest(http.MethodGet, "/", nil), &httplimit.Summary{Status: 200, Took: p99})
		}
		h := histogramOf(t, m.registry, "sluice_http_request_duration_seconds")
		below := 0.0
		for _, b := range h.GetBucket() {
			if b.GetCumulativeCount() > 0 {
				if width := b.GetUpperBound() - below; width > p99.Seconds()*.7 {
					t.Errorf("%v: reported as %v to %v", p99, below, b.GetUpperBound())
				}
				break
			}
			below = b.GetUpperBound()
		}
		if len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%v: no native histogram", p99)
		}
	}
}

// histogramOf returns the only histogram with a name.
func histogramOf(t *testing.T, registry *prometheus.Registry, name string) *dto.Histogram {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatalf("there is not one %s", name)
	return nil
}

// TestTraces: a sampled traceparent is the exemplar of its request, and no other is.
func TestTraces(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, c := range []struct {
		name, traceparent string
		is                bool
	}{
		{"sampled", "00-" + id + "-" + parent + "-01", true},
		{"of a later version", "42-" + id + "-" + parent + "-0f-more", true},
		{"other flags", "00-" + id + "-" + parent + "-fb", true},
		{"not sampled", "00-" + id + "-" + parent + "-0a", false},
		{"none", "", false},
		{"two", "00-" + id + "-" + parent + "-01\n00-" + id + "-" + parent + "-01", false},
		{"more than there is in this version", "00-" + id + "-" + parent + "-01-more", false},
		{"forbidden version", "ff-" + id + "-" + parent + "-01", false},
		{"capitals", "00-" + strings.ToUpper(id) + "-" + parent + "-01", false},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + parent + "-01", false},
		{"no parent", "00-" + id + "-" + strings.Repeat("0", 16) + "-01", false},
		{"short", "00-" + id + "-" + parent + "-0", false},
		{"other hyphens", "00_" + id + "-" + parent + "-01", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMetrics(t)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.traceparent != "" {
				r.Header["Traceparent"] = strings.Split(c.traceparent, "\n")
			}
			u := &httplimit.Upstream{URL: "http://a", Status: 200, Header: time.Millisecond}
			m.EndHTTP(r, &httplimit.Summary{Status: 200, Began: time.Now(), Took: time.Second, Upstream: u})
			page := httptest.NewRecorder()
			get := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			get.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
			promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(page, get)
			want := 0
			if c.is {
				want = 2 // the request's, and the upstream's
			}
			if got := strings.Count(page.Body.String(), `# {trace_id="`+id+`"}`); got != want {
				t.Errorf("%d exemplars, want %d", got, want)
			}
		})
	}
}

// TestTracesAreFew: if all clients are traced, only slow requests and a few others are
// recorded with their traces.
func TestTracesAreFew(t *testing.T) {
	m := newMetrics(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	began := time.Now()
	last := func(bucket float64) string {
		for _, b := range histogramOf(t, m.registry, "sluice_http_request_duration_seconds").GetBucket() {
			if b.GetUpperBound() == bucket && b.GetExemplar() != nil {
				return b.GetExemplar().GetLabel()[0].GetValue()[:1]
			}
		}
		return ""
	}
	for i, c := range []struct {
		after, took time.Duration
		want        string
	}{
		{0, time.Millisecond, "1"},
		{time.Millisecond, time.Millisecond, "1"},
		{50 * time.Millisecond, time.Millisecond, "1"},
		{120 * time.Millisecond, time.Millisecond, "4"},
		{121 * time.Millisecond, 300 * time.Millisecond, "5"},
		{122 * time.Millisecond, 400 * time.Millisecond, "6"},
	} {
		r.Header.Set("Traceparent", fmt.Sprintf("00-%d%s-00f067aa0ba902b7-01", i+1, strings.Repeat("a", 31)))
		m.EndHTTP(r, &httplimit.Summary{Status: 200, Began: began.Add(c.after), Took: c.took})
		bucket := .001
		if c.took > time.Millisecond {
			bucket = .5
		}
		if got := last(bucket); got != c.want {
			t.Errorf("request %d: the trace of %q is noted, want that of %q", i+1, got, c.want)
		}
	}
}

func TestEndDoesNotAllocate(t *testing.T) {
	m := newMetrics(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	s := &httplimit.Summary{Status: 200, Took: time.Millisecond, Upstream: &httplimit.Upstream{URL: "http://a", Status: 200, Header: time.Millisecond}}
	if got := testing.AllocsPerRun(1000, func() { m.EndHTTP(r, s) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// BenchmarkEnd measures EndHTTP with a trace and without.
func BenchmarkEnd(b *testing.B) {
	for _, c := range []struct{ name, traceparent string }{{"plain", ""}, {"traced", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}} {
		b.Run(c.name, func(b *testing.B) {
			m := newMetrics(b)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.traceparent != "" {
				r.Header.Set("Traceparent", c.traceparent)
			}
			s := &httplimit.Summary{Status: 200, Took: time.Millisecond, Upstream: &httplimit.Upstream{URL: "http://a", Status: 200, Header: time.Millisecond}}
			b.ReportAllocs()
			for b.Loop() {
				m.EndHTTP(r, s)
			}
		})
	}
}

// TestDurationsAreCollected: any number of durations, from any goroutine, is in the next
// scrape, each once.
func TestDurationsAreCollected(t *testing.T) {
	m := newMetrics(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	var want uint64
	for _, n := range []int{1, 30, 1, 1, 100, 7} {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range n {
					m.EndHTTP(r, &httplimit.Summary{Status: 200, Took: time.Second / 2})
				}
			})
		}
		all.Wait()
		want += 4 * uint64(n)
		h := histogramOf(t, m.registry, "sluice_http_request_duration_seconds")
		if h.GetSampleCount() != want || h.GetSampleSum() != float64(want)/2 {
			t.Errorf("%d of %v s in all, want %d of %v s", h.GetSampleCount(), h.GetSampleSum(), want, float64(want)/2)
		}
	}
}
