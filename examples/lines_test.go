// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package examples_test keeps what README.md says of the programs true.
package examples_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	row     = regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (.*?) ?\| ?(.*?) ?\|$`)
	library = regexp.MustCompile(`([\w/-]+) (\d+)\b`)
	block   = regexp.MustCompile("(?s)## (\\w+): ([\\w/-]+)\n\n```go\n(.*?)```")
	command = regexp.MustCompile(`go (?:-C (\w+) )?(?:run|test -v) \./(\w+(?:/\w+)?)`)
	program = regexp.MustCompile(`\[([\w-]+)\]\(([\w-]+)\)`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines is how many lines code has, without blank ones and those of a comment alone.
func lines(code string) (n int) {
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// marked is the code of an example between its marks.
func marked(t *testing.T, example string) string {
	t.Helper()
	file := filepath.Join(example, "main.go")
	switch example {
	case "clock":
		file = "clock/clock_test.go"
	case "gin":
		file = "../adapters/examples/ginquota/main.go"
	}
	_, code, begins := strings.Cut(read(t, file), "// begin\n")
	code, _, ends := strings.Cut(code, "// end\n")
	if !begins || !ends {
		t.Fatalf("%s has no marks", file)
	}
	return code
}

// TestLines: the programs are as long as README.md says, and at most a fifth longer than
// the shortest with another library that does the same.
func TestLines(t *testing.T) {
	others := make(map[string]int) // by example and library
	for _, m := range block.FindAllStringSubmatch(read(t, "peers.md"), -1) {
		others[m[1]+" "+m[2]] = lines(m[3])
	}
	var found []string
	for _, m := range row.FindAllStringSubmatch(read(t, "README.md"), -1) {
		example, same, less := m[1], m[3], m[4]
		found = append(found, example)
		ours := lines(marked(t, example))
		if m[2] != strconv.Itoa(ours) {
			t.Errorf("%s has %d lines, not %s", example, ours, m[2])
		}
		for i, list := range []string{same, less} {
			for _, p := range library.FindAllStringSubmatch(list, -1) {
				theirs, ok := others[example+" "+p[1]]
				if !ok || p[2] != strconv.Itoa(theirs) {
					t.Errorf("%s with %s has %d lines in peers.md, not %s", example, p[1], theirs, p[2])
				}
				delete(others, example+" "+p[1])
				if i == 0 && 5*ours > 6*theirs {
					t.Errorf("%s has %d lines, with %s %d", example, ours, p[1], theirs)
				}
			}
		}
	}
	if want := 9; len(found) != want {
		t.Errorf("README.md counts %v, want %d examples", found, want)
	}
	if len(others) > 0 {
		t.Errorf("README.md does not count %v", slices.Sorted(maps.Keys(others)))
	}
}

// TestAllAreListed: every folder here is in a table of README.md.
func TestAllAreListed(t *testing.T) {
	var listed []string
	for _, m := range program.FindAllStringSubmatch(read(t, "README.md"), -1) {
		listed = append(listed, m[1])
	}
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && !slices.Contains(listed, f.Name()) {
			t.Errorf("README.md does not list %s", f.Name())
		}
	}
}

// TestCommands: what README.md says to run is there.
func TestCommands(t *testing.T) {
	commands := command.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(commands) < 10 {
		t.Errorf("README.md has %d commands", len(commands))
	}
	for _, m := range commands {
		sources, err := filepath.Glob(filepath.Join("..", m[1], m[2], "*.go"))
		if err != nil || len(sources) == 0 {
			t.Errorf("%s: no program, %v", m[0], err)
		}
	}
}
