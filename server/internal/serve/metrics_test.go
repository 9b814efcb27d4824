// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// everything is a gateway with one of each feature, except a shared store. Its upstreams are
// one that answers and one that is down.
const everything = `
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", tls: {cert: %q, key: %q}}
  - {address: "127.0.0.3:0", serve: tcp, upstream: %q, name: db}
admin: 127.0.0.1:0
upstream:
  - {path: /gone, url: %q}
  - {url: %q}
rules:
  - {name: api, by: header.x-user, limits: 5/h, in_flight: 3, tiers: {by: header.x-plan, limits: {vip: none}}, candidates: {less: 2/h}}
  - {name: slow, match: {path: /slow}, limits: 50/s leaky-bucket burst 10}
  - {name: tokens, match: {path: /tokens}, limits: 1000/h, cost: {response_header: X-Cost, most: 50}}
`

// families returns the metrics of a page, by name.
func families(t *testing.T, r *servetest.Gateway) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(servetest.Fetch(t, http.DefaultClient, r.Admin+"/metrics").Body))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// describe returns the type of a metric and its labels.
func describe(t *testing.T, f *dto.MetricFamily) string {
	t.Helper()
	var labels []string
	for i, m := range f.GetMetric() {
		var of []string
		for _, l := range m.GetLabel() {
			of = append(of, l.GetName())
		}
		slices.Sort(of)
		if i > 0 && !slices.Equal(of, labels) {
			t.Errorf("%s has series with labels %q and with %q", f.GetName(), labels, of)
		}
		labels = of
	}
	return strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ",")
}

// documented returns the metrics in docs/metrics.md, in the form of describe, and the alerts.
func documented(t *testing.T) (kinds, alerts map[string]string) {
	t.Helper()
	page := testkit.ReadFile(t, "../../../docs/metrics.md")
	kinds, alerts = make(map[string]string), make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(sluice_\\w+)` \\| (\\w+) \\| ([^|]*) ?\\| [^|]+ \\| ([^|]+) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		slices.Sort(labels)
		if kinds[m[1]] != "" {
			t.Errorf("%s is documented twice", m[1])
		}
		kinds[m[1]], alerts[m[1]] = m[2]+" "+strings.Join(labels, ","), m[4]
	}
	return kinds, alerts
}

// TestMetricsAreDocumented: docs/metrics.md has exactly the metrics that gateways export, with
// types and labels.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	exported := make(map[string]string)
	for _, s := range []*servetest.Gateway{busy(t), busyShared(t)} {
		for name, f := range families(t, s) {
			switch {
			case strings.HasPrefix(name, "sluice_"):
				exported[name] = describe(t, f)
			case !regexp.MustCompile(`^(go|process|promhttp)_`).MatchString(name):
				t.Errorf("%s begins as none that is documented", name)
			}
		}
	}
	kinds, _ := documented(t)
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if kinds[name] != exported[name] {
			t.Errorf("%s is exported as %q and documented as %q", name, exported[name], kinds[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if exported[name] == "" {
			t.Errorf("%s is documented, and no gateway exports it", name)
		}
	}
}

// busy returns a gateway of everything after one of each event.
func busy(t *testing.T) *servetest.Gateway {
	t.Helper()
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {})
	cert, key, _ := testkit.CertificateFiles(t)
	s := servetest.Start(t, fmt.Sprintf(everything, cert, key, greeter(t, "hello"), servetest.Nobody, up))
	for range 6 {
		s.Get(t, "/")
	}
	s.Get(t, "/", "X-User", "vip", "X-Plan", "vip")
	s.Get(t, "/gone", "X-User", "u")
	s.Get(t, "/slow", "X-User", "v")
	s.Get(t, "/slow", "X-User", "v")
	if _, ok := call(t, s.URLs[2], "127.0.0.1", "hello"); !ok {
		t.Error("not greeted")
	}
	return s
}

// busyShared returns a gateway with a shared store after a decision.
func busyShared(t *testing.T) *servetest.Gateway {
	t.Helper()
	s := servetest.Start(t, fmt.Sprintf("store: {redis: {url: %q}}\nrules: [{name: a, limits: 1/h}]\n", redistest.Start(t, redistest.Redis(t)).URL()))
	s.Get(t, "/")
	return s
}

// TestUpstreamFailures: metrics tell failed requests of an upstream from answered ones, by
// route, and denials from both; no label comes from a client.
func TestUpstreamFailures(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/fails" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	s := servetest.Start(t, fmt.Sprintf("upstream:\n  - {path: /api, url: %q}\n  - {path: /gone, url: %q}\nrules: [{name: a, by: query.u, limits: 3/h}]\n", up, servetest.Nobody))
	for _, path := range []string{
		"/api?u=1", "/api/x?u=1", "/api/fails?u=1", "/api/y?u=1", // the fourth is denied
		"/gone?u=2", "/gone/a?u=2", "/gone?u=2", "/gone?u=2", "/elsewhere?u=3",
	} {
		s.Get(t, path)
	}
	const took = "sluice_http_request_duration_seconds_count"
	want := map[string]float64{
		`sluice_http_responses_total{class="2xx",route="/api"}`:        2,
		`sluice_http_responses_total{class="5xx",route="/api"}`:        1,
		`sluice_http_responses_total{class="4xx",route="/api"}`:        1,
		`sluice_http_responses_total{class="5xx",route="/gone"}`:       3,
		`sluice_http_responses_total{class="4xx",route="/gone"}`:       1,
		`sluice_http_responses_total{class="4xx",route="none"}`:        1,
		took + `{route="/api",verdict="allowed"}`:                      3,
		took + `{route="/api",verdict="denied"}`:                       1,
		took + `{route="/gone",verdict="allowed"}`:                     3,
		took + `{route="/gone",verdict="denied"}`:                      1,
		took + `{route="none",verdict="allowed"}`:                      1,
		`sluice_upstream_duration_seconds_count{route="/api"}`:         3,
		`sluice_upstream_responses_total{class="2xx",route="/api"}`:    2,
		`sluice_upstream_responses_total{class="5xx",route="/api"}`:    1,
		`sluice_upstream_errors_total{reason="connect",route="/gone"}`: 3,
	}
	got := func() map[string]float64 {
		all := s.Metrics(t)
		maps.DeleteFunc(all, func(name string, _ float64) bool {
			return !regexp.MustCompile(`^sluice_(http_re|upstream_(dur|res|err))`).MatchString(name) ||
				strings.Contains(name, "_bucket") || strings.Contains(name, "_sum") || strings.Contains(name, "in_flight")
		})
		return all
	}
	testkit.Until(t, "the last request to be over", func() bool { return len(got()) >= len(want) })
	if got := got(); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestSlotsHeld: requests in flight are shown while they run.
func TestSlotsHeld(t *testing.T) {
	t.Parallel()
	there, release := make(chan struct{}), make(chan struct{})
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {
		there <- struct{}{}
		<-release
	})
	s := servetest.Start(t, fmt.Sprintf("listen: [{address: \"127.0.0.1:0\", name: front}]\nupstream: %q\nrules: [{name: a, in_flight: 3, limits: 9/h}]\n", up))
	shown := func(n float64) {
		t.Helper()
		testkit.Until(t, fmt.Sprint(n, " in flight"), func() bool {
			m := s.Metrics(t)
			return m["sluice_slots_held"] == n && m[`sluice_http_requests_in_flight{listener="front"}`] == n
		})
	}
	shown(0)
	done := make(chan servetest.Answer)
	for range 2 {
		go func() { done <- s.Get(t, "/") }()
		<-there
	}
	shown(2)
	for range 2 {
		release <- struct{}{}
		<-done
	}
	shown(0)
	if m := s.Metrics(t); m[`sluice_slot_decisions_total{limit="slots",scope="a",verdict="allowed"}`] != 2 {
		t.Errorf("%v", m)
	}
}

// TestBuildInfo: the program's version and its configuration are in the metrics.
func TestBuildInfo(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, "rules: [{name: a, limits: 1/h}]\n")
	m := s.Metrics(t)
	for name := range m {
		if strings.HasPrefix(name, "sluice_build_info{") && !strings.Contains(name, `goversion="go1`) {
			t.Error(name)
		}
	}
	if m[fmt.Sprintf("sluice_config_info{file=%q,hash=%q}", s.File, s.Hash(t))] != 1 {
		t.Errorf("%v", m)
	}
}
