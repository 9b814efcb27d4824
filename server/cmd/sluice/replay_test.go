// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// twelve are lines of an access log: seven requests of one client and five of another within a
// minute.
func twelve() string {
	var b strings.Builder
	for i := range 12 {
		client := []string{"192.0.2.1", "192.0.2.2"}[min(i/7, 1)]
		fmt.Fprintf(&b, "%s - - [01/Mar/2024:01:30:%02d +0000] \"GET /%d HTTP/1.1\" 200 10 \"-\" \"curl\"\n", client, i, i)
	}
	return b.String()
}

// words returns a text with one blank between words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	log := write("access.log", twelve())
	out, _ := command(t, cli.OK, "replay", "--limit", "3/min sliding-log", "--by", "ip", log)
	testkit.Contains(t, words(out), log+": combined, 12 lines", "3/min sliding-log by ip number", "denied 6 50 %", "keys 2 2 denied", "replay: 3/min sliding-log 3 3", "192.0.2.1 7 4")

	var doc map[string]any
	out, _ = command(t, cli.OK, "replay", "--limit", "3/min sliding-log", "--json", log)
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"requests": 12, "allowed": 6, "denied": 6, "keys": 2, "denied_keys": 2, "span_seconds": 11, "worst_window": 3} {
		if doc[name] != want {
			t.Errorf("%s is %v, want %v", name, doc[name], want)
		}
	}

	tsv := write("requests.tsv", "host\ttime\tunits\nada\t1709256600\t2\nada\t1709256601\t2\nbob\t1709256602\t1\n")
	out, _ = command(t, cli.OK, "replay", "--limit", "3/60s sliding-log", "--key", "host", "--time", "time", "--cost", "units", "--format", "tsv", tsv)
	testkit.Contains(t, words(out), "3/60s sliding-log by host", "denied 1 33.3 %", "ada 2 1 50 %")

	file := write("sluice.yaml", "upstream: http://127.0.0.1:1\nrules: [{name: a, by: ip, limits: 2/min}]\n")
	old := write("old.yaml", "upstream: http://127.0.0.1:1\nrules: [{name: a, by: ip, limits: 9/min}]\n")
	page := filepath.Join(dir, "report.html")
	out, _ = command(t, cli.OK, "replay", "--config", file, "--against", old, "--html", page, log)
	testkit.Contains(t, out, "rules of "+file, "they allow 12 and deny 0; 8 are newly denied and 0 newly allowed, of 2 keys")
	testkit.Contains(t, string(testkit.ReadFile(t, page)), "<title>sluice replay</title>", "192.0.2.1", "uPlot", `"allowed":4,"denied":8`)

	out, _ = command(t, cli.OK, "replay", "--limit", "3/min sliding-log", "--explain", "192.0.2.1@2024-03-01T01:30:04Z", log)
	testkit.Contains(t, out, log+":", "denied by replay", "rule replay")
	out, _ = command(t, cli.OK, "replay", "--limit", "3/min", "--accuracy", log)
	testkit.Contains(t, out, "12 requests of 2 keys", "3/min sliding-counter", "Estimates of a sliding counter")
	out, _ = command(t, cli.OK, "replay", "--limit", "3/min", "--accuracy", "--json", log)
	testkit.Contains(t, out, `"false_allow"`)
}

func TestReplayFaults(t *testing.T) {
	t.Parallel()
	log := testkit.TempFile(t, "access.log", twelve())
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{cli.Usage, "--limit: there is none", []string{log}},
		{cli.Usage, "expected a log, got none", []string{"--limit", "1/min"}},
		{cli.Usage, `--limit`, []string{"--limit", "0/min", log}},
		{cli.Usage, `--by`, []string{"--limit", "1/min", "--by", "nobody", log}},
		{cli.Usage, "--key and --by exclude each other", []string{"--limit", "1/min", "--by", "ip", "--key", "user", log}},
		{cli.Usage, "--config has the rules", []string{"--limit", "1/min", "--config", "x.yaml", log}},
		{cli.Usage, "expected a key and a time", []string{"--limit", "1/min", "--explain", "ada", log}},
		{cli.Usage, "the time is not one", []string{"--limit", "1/min", "--explain", "ada@noon", log}},
		{cli.Usage, "--accuracy compares one limit", []string{"--limit", "1/min", "--limit", "9/h", "--accuracy", log}},
		{cli.Failed, "no request of that key", []string{"--limit", "1/min", "--explain", "ada@2024-03-01T01:30:04Z", log}},
		{cli.Failed, "there is no such column", []string{"--limit", "1/min", "--key", "zone", log}},
		{cli.Failed, "no such file", []string{"--limit", "1/min", log + "x"}},
	} {
		failsWith(t, c.code, c.text, append([]string{"replay"}, c.args...)...)
	}
}

// TestReplayTerminal: nothing that a client has sent is obeyed by a terminal.
func TestReplayTerminal(t *testing.T) {
	t.Parallel()
	log := testkit.TempFile(t, "requests.tsv", strings.Repeat("\x1b[31mevil\u202e\t1709256600\n", 3)+"\x1b]0;broken\x07\n")
	out, _ := command(t, cli.OK, "replay", "--limit", "1/min", "--key", "1", log)
	if strings.ContainsAny(out, "\x1b\x07\u202e") || !strings.Contains(out, "[31mevil") {
		t.Errorf("got %q", out)
	}
}
