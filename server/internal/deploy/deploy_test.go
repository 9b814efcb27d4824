// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy_test checks the board and the rules for Prometheus.
package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// expression is what a panel or a rule asks for.
type expression struct{ from, text string }

// board returns the expressions of board.json.
func board(t *testing.T) (all []expression) {
	t.Helper()
	type target struct{ Expr string }
	var b struct {
		Annotations struct {
			List []struct{ Name, Expr string }
		}
		Panels []struct {
			Title, Type string
			Targets     []target
		}
	}
	if err := json.Unmarshal(read(t, "board.json"), &b); err != nil {
		t.Fatal(err)
	}
	for _, a := range b.Annotations.List {
		all = append(all, expression{"annotation " + a.Name, a.Expr})
	}
	for _, p := range b.Panels {
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %q has %d targets", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			all = append(all, expression{"panel " + p.Title, target.Expr})
		}
	}
	return all
}

// alerts returns the expressions of alerts.yml by the names of the alerts.
func alerts(t *testing.T) map[string]expression {
	t.Helper()
	var f struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(read(t, "alerts.yml"), &f); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]expression)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = expression{"alert " + r.Alert, r.Expr}
		}
	}
	return all
}

// folder holds the files under test.
const folder = "../../../deploy"

// read returns a file of the folder.
func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	documentedRow = regexp.MustCompile("(?m)^\\| `(sluice_\\w+)` \\| (\\w+) \\| .* \\| ([^|]+) \\|$")
	beside        = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring) \([^)]*\)`)
	word          = regexp.MustCompile(`\b[a-zA-Z_]\w*\b(\s*\()?`)
	ofOthers      = regexp.MustCompile(`^(up|(process|go)_\w+)$`)
)

// names returns the metrics that an expression names: words that are neither functions,
// nor labels, nor operators.
func names(text string) (all []string) {
	for _, w := range word.FindAllString(beside.ReplaceAllString(text, " "), -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains([]string{"and", "or", "unless", "bool"}, w) {
			all = append(all, w)
		}
	}
	return all
}

// TestNamesExist: all that board and alerts name is exported, as docs/metrics.md has it;
// of histograms they ask for buckets.
func TestNamesExist(t *testing.T) {
	kinds, docs := make(map[string]string), make(map[string][]string) // alerts, with the metrics that name them
	for _, m := range documentedRow.FindAllStringSubmatch(string(read(t, "../docs/metrics.md")), -1) {
		kinds[m[1]] = m[2]
		if m[2] == "histogram" {
			delete(kinds, m[1])
			kinds[m[1]+"_bucket"], kinds[m[1]+"_sum"], kinds[m[1]+"_count"] = m[2], m[2], m[2]
		}
		for alert := range strings.SplitSeq(m[3], ", ") {
			if alert != "no alert" {
				docs[alert] = append(docs[alert], m[1])
			}
		}
	}
	rules := alerts(t)
	for _, e := range append(board(t), slices.Collect(maps.Values(rules))...) {
		found := names(e.text)
		if len(found) == 0 {
			t.Errorf("%s: %s names nothing", e.from, e.text)
		}
		for _, name := range found {
			if kinds[name] == "" && !ofOthers.MatchString(name) {
				t.Errorf("%s: no gateway exports %s", e.from, name)
			}
		}
	}
	for alert, metrics := range docs {
		for _, name := range metrics {
			if !strings.Contains(rules[alert].text, name) {
				t.Errorf("docs/metrics.md says that %s fires on %s: %q", alert, name, rules[alert].text)
			}
		}
	}
	for alert := range rules {
		if len(docs[alert]) == 0 && alert != "SluiceDown" {
			t.Errorf("docs/metrics.md has no metric on which %s fires", alert)
		}
	}
}

// TestNames: the test above sees what an expression names.
func TestNames(t *testing.T) {
	got := names(`sum by (job, le) (rate(a_total{x=~"b|c"}[5m])) / on (d) e - time() > 7 * 86400 or topk (3, f_bucket)`)
	if want := []string{"a_total", "e", "f_bucket"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAlerts: each fires when it should and not before, as promtool sees it.
func TestAlerts(t *testing.T) {
	tool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", folder + "/alerts.yml"}, {"test", "rules", folder + "/alerts_test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tested := string(read(t, "alerts_test.yml"))
	for alert := range alerts(t) {
		if !regexp.MustCompile(`alertname: ` + alert + `\n +exp_alerts:\n +- exp_labels`).MatchString(tested) {
			t.Errorf("no test shows that %s fires", alert)
		}
	}
}

// program returns one of Prometheus'. A test that has none fails.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not on the PATH; install it with: apt-get install prometheus", name)
	}
	return path
}
