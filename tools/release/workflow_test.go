// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflows: actionlint finds no fault in the workflows, and each action is pinned to a commit, with the
// version that this is.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	linter, err := actionlint.NewLinter(os.Stdout, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := linter.LintFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
	uses, pinned := regexp.MustCompile(`(?m)^.*\buses: .*$`), regexp.MustCompile(`uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		for _, line := range uses.FindAllString(read(t, file), -1) {
			if !pinned.MatchString(line) {
				t.Errorf("%s: %q is not pinned to a commit", file, strings.TrimSpace(line))
			}
		}
	}
}

// TestGoVersions: the modules of a release need the same Go version, and CI tests it and the next, as
// docs/releasing.md says.
func TestGoVersions(t *testing.T) {
	found := published.FindStringSubmatch(read(t, "../../Makefile"))
	if found == nil {
		t.Fatal("the Makefile does not set PUBLISHED")
	}
	want := language.FindString(read(t, "../../go.mod"))
	for module := range strings.FieldsSeq(found[1]) {
		if got := language.FindString(read(t, filepath.Join("../..", module, "go.mod"))); got != want || got == "" {
			t.Errorf("%s has %q, want %q", module, got, want)
		}
	}
	for file, text := range map[string]string{
		"../../.github/workflows/ci.yml": "matrix: {go: [oldstable, stable]}",
		"../../docs/releasing.md":        "the two latest Go releases",
	} {
		if !strings.Contains(read(t, file), text) {
			t.Errorf("%s does not have %q", file, text)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
