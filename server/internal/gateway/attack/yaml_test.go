// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package attack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestFilesThatAreBombs: a file is refused with its line, or read correctly, and costs no more
// than a file may. Package config has the small ones.
func TestFilesThatAreBombs(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{name: all, by: ip, limits: 1/h}]\n"
	doubled := "a0: &a0 [x, x]\n"
	for i := range 40 {
		doubled += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	merged := "a0: &a0 {x: 1}\n"
	for i := range 40 {
		merged += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d], y%d: 1}\n", i+1, i+1, i, i, i)
	}
	shared := "rules:\n- {name: r, by: ip, limits: 1/h, match: &m {path: [/0"
	for i := range 5000 {
		shared += fmt.Sprintf(", /%d", i+1)
	}
	shared += "]}}\n"
	for i := range 5000 {
		shared += fmt.Sprintf("- {name: r%d, by: ip, limits: 1/h, match: *m}\n", i)
	}
	long := 10 << 20 // length of a line in bytes
	if testkit.Race() {
		long = 1 << 20
	}
	type verdict string
	const (
		harmless verdict = "is accepted"
		refused  verdict = "is refused with its line"
		unread   verdict = "is refused by the reader of YAML, which may not say where"
	)
	type row struct {
		name, text string
		want       verdict
	}
	rows := []row{
		{"a file", rules, harmless},
		{"aliases that double", doubled + "rules: *a40\n", refused},
		{"aliases that double within a rule", "rules:\n  - name: &a a\n    by: ip\n    limits: &l [1/h]\n    match: {path: &p [/a, /b]}\n    candidates: " + strings.Repeat("{x: ", 30) + "*l" + strings.Repeat("}", 30) + "\n", refused},
		{"a list that 5,000 rules share", shared, refused},
		{"merges that double", merged + "rules: *a40\n", refused},
		{"an alias of itself", "rules: &r [*r]\n", refused},
		{"an alias of a map that holds it", "rules: [&r {name: all, by: ip, limits: *r}]\n", refused},
		{"a merge of itself", "rules: [&r {<<: *r, name: all}]\n", refused},
		{"100,000 lists in one another", "rules: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n", unread},
		{"100,000 lists that do not end", "rules: " + strings.Repeat("[", 100_000), unread},
		{"maps in one another", "rules: " + strings.Repeat("{a: ", 9_000) + "b" + strings.Repeat("}", 9_000) + "\n", refused},
		{"1,000 levels of blocks", deep(1_000), refused},
		{"100,001 items", "rules:\n" + strings.Repeat("- x\n", 100_001), refused},
		{"5,000 rules of one name", "rules:\n" + strings.Repeat("- {name: a, limits: 1/h}\n", 5_000), refused},
		{"one line of 10 MB", "rules: [{name: all, by: ip, limits: 1/h, x: " + strings.Repeat("a", long) + "}]\n", refused},
		{"2 MB of blanks", "rules:" + strings.Repeat(" ", 2<<20) + "[{name: all, by: ip, limits: 1/h}]\n", harmless},
		{"2 MB of comments", strings.Repeat("# "+strings.Repeat("a", 1000)+"\n", 2<<10) + rules, harmless},
		{"1 MB of text behind |", "rules: |\n" + strings.Repeat("  a\n", 1<<18), refused},
		{"a limit of 1 MB", "rules: [{name: all, by: ip, limits: " + strings.Repeat("9", 1<<20) + "/h}]\n", refused},
		{"100,000 documents", strings.Repeat("---\n"+rules, 100_000), refused},
	}
	dir := t.TempDir()
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, fmt.Sprintf("f%d.yaml", i))
			if err := os.WriteFile(file, []byte(r.text), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, program(t), "lint", file)
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Fatalf("ended with %v; wrote %.500s", err, out)
			}
			if (r.want == harmless) != (err == nil) {
				t.Errorf("ended with %v, and %s; wrote %.500s", err, r.want, out)
			}
			place := regexp.QuoteMeta(file) + `:`
			if r.want == refused {
				place += `\d+:\d+: `
			}
			if err != nil && !regexp.MustCompile(place).Match(out) {
				t.Errorf("%s; wrote %.500s", r.want, out)
			}
			if len(out) > 1<<20 {
				t.Errorf("wrote %d bytes", len(out))
			}
			// The test's own memory counts, too, as a new process begins with it.
			use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			if ok && runtime.GOOS == "linux" && use.Maxrss>>10 > 1500 {
				t.Errorf("took %d MiB", use.Maxrss>>10)
			}
		})
	}
}

// deep returns nested maps, one level a line.
func deep(levels int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}
