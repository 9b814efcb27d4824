// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// TestLintExamples: the examples have neither fault nor warning, and their
// cases hold.
func TestLintExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/configs/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		base, isCases := strings.CutSuffix(file, ".cases.yaml")
		if isCases {
			if _, err := os.Stat(base + ".yaml"); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		n++
		t.Run(filepath.Base(file), func(t *testing.T) {
			out, _ := command(t, cli.OK, "lint", file)
			if strings.Contains(out, "warning") || !strings.Contains(out, "at most") {
				t.Errorf("got\n%s", out)
			}
			out, _ = command(t, cli.OK, "lint", file, "--strict", "--test", strings.TrimSuffix(file, ".yaml")+".cases.yaml")
			if strings.Contains(out, "FAIL") || strings.Contains(out, "at most") || !strings.HasPrefix(out, "ok ") {
				t.Errorf("got\n%s", out)
			}
		})
	}
	if n < 5 {
		t.Errorf("%d examples, want 5 or more", n)
	}
}

// TestLintFaults: every fault is reported with its place, and the exit code says so.
func TestLintFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	bad := write("bad.yaml", "rules:\n  - {name: a, by: nobody, limits: 5/min}\n  - {name: b, by: ip, limts: 5/min}\n")
	good := write("good.yaml", "rules:\n  - {name: a, by: ip, limits: 5/min fixed-window}\n")
	fails := write("fails.yaml", "cases:\n  - name: too many\n    steps: [{given: {request: GET /, from: 192.0.2.1, times: 6}, expect: allowed}]\n")
	holds := write("holds.yaml", "cases:\n  - name: five\n    steps: [{given: {request: GET /, from: 192.0.2.1, times: 5}, expect: allowed}]\n")

	_, stderr := command(t, cli.Failed, "lint", bad)
	testkit.Contains(t, stderr, "bad.yaml:2:", "bad.yaml:3:", `"limts"`)
	out, _ := command(t, cli.OK, "lint", "--test="+holds, good)
	if want := "ok   five\n" + holds + ": 1 of 1 cases hold\n"; out != want {
		t.Errorf("got\n%s, want\n%s", out, want)
	}
	never := write("never.yaml", "rules:\n  - {name: a, by: ip, limits: 5/min fixed-window, max_wait: 1s, when: {response: 4xx}}\n")
	if out, _ = command(t, cli.Failed, "lint", never, "--strict", "--test", write("one.yaml", "cases:\n  - {name: one, given: {request: GET /, from: 192.0.2.1}, steps: [{expect: allowed}]}\n")); !strings.Contains(out, "warning: ") {
		t.Errorf("a warning that fails is not shown:\n%s", out)
	}
	out, _ = command(t, cli.Failed, "lint", good, "--test", holds, "--test", fails)
	if !strings.Contains(out, "FAIL too many") || !strings.Contains(out, "fails.yaml:3:") {
		t.Errorf("got\n%s", out)
	}
	_, stderr = command(t, cli.Failed, "lint", filepath.Join(dir, "none.yaml"))
	testkit.Contains(t, stderr, "no such file")
	_, stderr = command(t, cli.Failed, "lint", good, "--test", "--without-files") // which are cases then
	testkit.Contains(t, stderr, "stat --without-files: no such file")
	for _, args := range [][]string{{"lint"}, {"lint", good, "--without-files=yes"}, {"lint", good, good}, {"lint", good, "--tests", holds}, {"lint", good, "--test"}} {
		command(t, cli.Usage, args...)
	}
}
