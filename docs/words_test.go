// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// instead has the field's words for those that this repository does not use. Results
// of measurements keep the words of their time.
var instead = map[string]string{
	`in force`:                      "active",
	`held back`:                     "delayed",
	`holds? back`:                   "delay",
	`on trial`:                      "candidate",
	`(is|was|are) away`:             "unavailable",
	`\bas never seen`:               "fully refilled, idle",
	`befell`:                        "was injected into",
	`\bfares\b`:                     "state",
	`who lacks`:                     "requests without",
	`store fails: `:                 "store is unavailable: ",
	`there is no such flag`:         "unknown flag",
	`\brider`:                       "waiter",
	`\bthaws?\b`:                    "unlock",
	`\bspecimens?\b`:                "example",
	`never-seen`:                    "new",
	`\brested key`:                  "idle key",
	`[Ww]hoever`:                    "a noun: the caller, a client",
	`client is who`:                 "client is the peer",
	`\bparcel`:                      "grant",
	`\bledgers?\b`:                  "account, admissions, debts",
	`\bforg[ia]v(e|es|ing)\b`:       "refill, refund, reduce",
	`\bjudg(e|es|ing|ment|ement)\b`: "evaluate, decide, check",
	`\bfate\b`:                      "result",
	`\bof late\b`:                   "recently",
	`\bbecame of\b`:                 "happened to, the result of",
	`\bwhat (came|becomes?) of\b`:   "the result of",
	`\bbelie(f|ve|ves|ved|ving)\b`:  "trust, accept",
	`\blocali[sz]ed\b`:              "decided locally",
	`\bpulse\b`:                     "heartbeat",
	`\bwithheld\b`:                  "deficit, missing",
	`\brested\(`:                    "idle",
	`(was|were|been) begun`:         "started",
	`\bkeeper\b`:                    "a noun",
	`says not\b`:                    "what it lacks",
	`as good as`:                    "fully refilled",
	`tells? (apart|of)\b`:           "distinguish, report",
}

// TestWords: one word for one thing, and the field's.
func TestWords(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "*.go", "*.md", "*.js", "*.lua", "*.yaml", "*.yml", "*.txt").Output()
	if err != nil {
		t.Fatal(err)
	}
	left := regexp.MustCompile(`^(docs/words_test\.go|bench/results/|internal/server/page/(static/uPlot|browser/testdata))`)
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
