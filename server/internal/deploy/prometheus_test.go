// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// prometheus is a server that scrapes nodes.
type prometheus struct{ url string }

// startPrometheus starts a server that scrapes these addresses every two seconds, which
// is how long an answer may take as well, and waits until it is ready. It stops with the test.
func startPrometheus(t *testing.T, targets []string, features string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	quoted, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs(filepath.Join(folder, "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("global: {scrape_interval: 2s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs: [{job_name: sluice, static_configs: [{targets: %s}]}]\n", rules, quoted)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testkit.FreeAddress(t)
	var out testkit.Buffer
	cmd := exec.Command(program(t, "prometheus"), "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address, "--log.level", "warn", "--enable-feature", features)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to keep
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", out.String())
		}
	})
	p := &prometheus{url: "http://" + address}
	until(t, "Prometheus to be ready", func() string {
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err.Error()
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
	return p
}

// until asks again until nothing is missing, or fails with what was last.
func until(t *testing.T, what string, missing func() string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * testkit.Ceiling); ; <-tick.C {
		last := missing()
		if last == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("wait for %s: %s", what, last)
		}
	}
}

// sample is one series of an answer, with its value now.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

func (s *sample) value(t *testing.T) float64 {
	t.Helper()
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// query returns what an expression is now.
func (p *prometheus) query(t *testing.T, expr string) []sample {
	t.Helper()
	var answer struct {
		Data struct{ Result []sample }
	}
	p.ask(t, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result
}

func (p *prometheus) ask(t *testing.T, path string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
}

// one returns the value of an expression that has one.
func (p *prometheus) one(t *testing.T, expr string) float64 {
	t.Helper()
	all := p.query(t, expr)
	if len(all) != 1 {
		return -1
	}
	return all[0].value(t)
}

// fill puts values in place of a board's variables.
func fill(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$job", "sluice", "$instance", ".*").Replace(expr)
}
