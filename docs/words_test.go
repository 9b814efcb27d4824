// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// instead has the field's words for those that this repository does not use. Records
// of decisions, and results of measurements, keep the words of their time.
var instead = map[string]string{
	`in force`:              "active",
	`held back`:             "delayed",
	`holds? back`:           "delay",
	`on trial`:              "candidate",
	`(is|was|are) away`:     "unavailable",
	`\bas never seen`:       "fully refilled, idle",
	`befell`:                "was injected into",
	`\bfares\b`:             "state",
	`who lacks`:             "requests without",
	`store fails: `:         "store is unavailable: ",
	`there is no such flag`: "unknown flag",
	`\brider`:               "waiter",
	`\bparcels?\b`:          "grant",
	`\bthaws?\b`:            "unlock",
	`\bspecimens?\b`:        "example",
	`never-seen`:            "new",
	`\brested key`:          "idle key",
	`[Ww]hoever`:            "a noun: the caller, a client",
	`client is who`:         "client is the peer",
}

// TestWords: one word for one thing, and the field's.
func TestWords(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "*.go", "*.md", "*.js", "*.lua", "*.yaml", "*.yml", "*.txt").Output()
	if err != nil {
		t.Fatal(err)
	}
	left := regexp.MustCompile(`^(docs/adr/|docs/words_test\.go|bench/results/|CHANGELOG\.md|internal/server/page/(static/uPlot|browser/testdata))`)
	files := 0
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); left.MatchString(name) {
			continue
		}
		files++
		text := read(t, "../"+name)
		for word, better := range instead {
			for _, at := range regexp.MustCompile(word).FindAllStringIndex(text, -1) {
				t.Errorf("%s:%d: %q: write %s", name, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], better)
			}
		}
	}
	if files < 500 {
		t.Errorf("%d files", files)
	}
}
