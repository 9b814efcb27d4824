// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestEachRequestCountsOnce: each request has one verdict, which the overview, its series,
// metrics and the decision log count alike, and these add up to all requests.
func TestEachRequestCountsOnce(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "d.log")
	failing := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
decision_log: {file: %q}
rules:
  - {name: slow, match: {path: /slow}, limits: 20/s leaky-bucket burst 5}
  - {name: lax, match: {path: /lax}, limits: {soft: 1/h sliding-log, grace: 1/h sliding-log}}
  - {name: keyed, match: {path: /keyed}, by: header.X-User, limits: 2/h}
  - {name: bytes, match: {path: /bytes}, cost: request-bytes, limits: 1KB/h}
  - {name: dry, match: {path: /dry}, mode: shadow, limits: 1/h}
`, failing, log), servetest.Stopped)
	asked := 0
	get := func(n int, path string, fields ...string) {
		for range n {
			s.Get(t, path, fields...)
			asked++
		}
	}
	get(2, "/slow")
	get(3, "/lax")
	get(1, "/keyed") // without a key
	get(3, "/keyed", "X-User", "ada")
	get(2, "/dry")
	get(4, "/bad")
	for _, size := range []int{100, 100_000} { // without a length: the second is denied midway
		req := servetest.Request(t.Context(), t, http.MethodPost, s.URL+"/bytes", struct{ *strings.Reader }{strings.NewReader(strings.Repeat("x", size))})
		req.ContentLength = -1
		resp, err := http.DefaultClient.Do(req)
		asked++
		if err == nil {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	want := history.Counts{
		Allowed: 1 + 1 + 2 + 2 + 4 + 1, Delayed: 1, Warned: 1, Denied: 1 + 1 + 1, Refused: 1, WouldDeny: 1, UpstreamErrors: 4,
	}
	written(t, s, "decision", float64(asked))
	o, _ := overviewOf(t, s, "")
	if got := o.Requests.Total; got != want || got.Requests() != uint64(asked) || o.Requests.Recent.Sum() != want {
		t.Errorf("of %d requests: got %+v, in series %+v, want %+v", asked, got, o.Requests.Recent.Sum(), want)
	}
	m, lines := s.Metrics(t), make(map[string]uint64)
	for _, d := range decisions(t, log) {
		lines[d.Verdict]++
	}
	for verdict, n := range map[string]uint64{
		"allowed": want.Allowed, "delayed": want.Delayed, "warned": want.Warned, "denied": want.Denied, "refused": want.Refused,
		"failed-open": 0, "failed-closed": 0, "abandoned": 0,
	} {
		if counted := m[fmt.Sprintf("sluice_requests_total{verdict=%q}", verdict)]; counted != float64(n) || lines[verdict] != n {
			t.Errorf("%s: %v in metrics, %d lines, want %d", verdict, counted, lines[verdict], n)
		}
	}
	for _, r := range o.Rules {
		if n := map[string]uint64{"slow": 2, "lax": 3, "keyed": 4, "bytes": 2, "dry": 0}[r.Name]; r.Requests() != n {
			t.Errorf("%s: %+v, which are %d requests, want %d", r.Name, r.Counts, r.Requests(), n)
		}
	}
}

// TestProblems: if most requests are refused, fail, or get an error of the upstream, the
// overview and /readyz say so, the largest problem first.
func TestProblems(t *testing.T) {
	t.Parallel()
	secret := testkit.TempFile(t, "secret", tokenSecret)
	token := "Bearer " + tokenOf(tokenSecret, `{"sub":"ada","iss":"others","exp":99999999999}`)
	for _, c := range []struct {
		name, yaml, kind, text string
		passes                 bool
	}{
		{
			"no token", fmt.Sprintf("upstream: %q\ntokens: {hmac_file: %q, issuer: them, required: true}\nrules: [{name: api, by: claim.sub, limits: 100/h}]\n", servetest.Nobody, secret),
			"refused", "20 of 20 requests got 401: a token is needed, and none was sent", false,
		},
		{
			"another issuer", fmt.Sprintf("upstream: %q\ntokens: {hmac_file: %q, issuer: them}\nrules: [{name: api, by: claim.sub, limits: 100/h}]\n", servetest.Nobody, secret),
			"refused", "20 of 20 requests got 401: the token is not valid: its issuer (iss) is not the one that tokens names", false,
		},
		{"a full disk", "decision_log: {file: /dev/full}\nrules: [{name: api, by: ip, limits: 100/h}]\n", "log", "the decision log cannot be written: write /dev/full: no space left on device", true},
		{"no key", "rules: [{name: api, by: header.X-Key, limits: 100/h}]\n", "refused", "20 of 20 requests got 400: header X-Key is missing", false},
		{"not let in", "deny: [127.0.0.0/8]\nrules: [{name: api, by: ip, limits: 100/h}]\n", "refused", "20 of 20 requests got 403: ", false},
		{"upstream down", fmt.Sprintf("upstream: %q\nrules: [{name: api, by: ip, limits: 100/h}]\n", servetest.Nobody), "upstream", "20 of 20 requests got an error of the upstream", true},
		{"closed", "store: {redis: {url: \"redis://127.0.0.1:1\"}}\nrules: [{name: api, by: ip, limits: 100/h, failure: closed}]\n", "failed", "20 of 20 requests got 503: ", false},
		{"open", "store: {redis: {url: \"redis://127.0.0.1:1\"}}\nrules: [{name: api, by: ip, limits: 1/h}]\n", "failed-open", "20 of 20 requests passed without a limit, as the store was unavailable", true},
		{"well", "rules: [{name: api, by: ip, limits: 100/h}]\n", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servetest.Start(t, c.yaml, servetest.Stopped)
			var fields []string
			if c.name == "another issuer" {
				fields = []string{"Authorization", token}
			}
			for range 20 {
				if got := s.Get(t, "/?userId=u", fields...).Status; (got == http.StatusOK || got == http.StatusBadGateway) != c.passes {
					t.Fatalf("got %d", got)
				}
			}
			var said string
			testkit.Until(t, "the requests to be counted", func() bool {
				o, _ := overviewOf(t, s, "")
				said = fmt.Sprint(o.Requests.Problems)
				return o.Requests.Total.Requests() == 20 && (c.kind == "" || len(o.Requests.Problems) > 0 && o.Requests.Problems[0].Kind == c.kind)
			})
			if !strings.Contains(said, c.text) || c.kind == "" && said != "[]" {
				t.Errorf("the overview says %s", said)
			}
			if ready := servetest.Ready(t, s).Body; c.kind != "" && !strings.Contains(ready, c.kind+": "+c.text) || c.kind == "" && strings.Contains(ready, "20 of 20") {
				t.Errorf("readyz says %q", ready)
			}
		})
	}
}

// TestBodiesOfClientsAreNoProblem: a body that is too long for the upstream is no error of the
// upstream, which alerts would take for an outage.
func TestBodiesOfClientsAreNoProblem(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: [{url: %q, max_body: 1024}]\nrules: [{name: a, limits: 100/h}]\n", servetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client breaks off
	})))
	for range 5 {
		req := servetest.Request(t.Context(), t, http.MethodPost, s.URL, struct{ *strings.Reader }{strings.NewReader(strings.Repeat("x", 100_000))})
		req.ContentLength = -1
		if a := servetest.Do(t, http.DefaultClient, req); a.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("got %d", a.Status)
		}
	}
	testkit.Until(t, "the requests to be over", func() bool {
		return s.Metrics(t)[`sluice_upstream_errors_total{reason="client",route="/"}`] == 5
	})
	if o, _ := overviewOf(t, s, ""); len(o.Requests.Problems) != 0 || o.Requests.Total.UpstreamErrors != 0 || o.Requests.Total.Allowed != 5 {
		t.Errorf("got %+v", o.Requests)
	}
}
