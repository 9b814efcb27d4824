// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources are the packages and files that check the text of a user, and the functions
// there whose first text is an error.
var sources = []struct {
	path   string
	calls  []string
	least  int
	suffix string // what the called function adds
}{
	{"../server/cmd/sluice", []string{"fault", "Usagef"}, 20, ""},
	{"../server/internal/cli", []string{"fault", "Usagef"}, 1, ""},
	{"../config", []string{"Fault", "FaultAt", "Whole"}, 80, ""},
	{"../config/cases", []string{"Fault"}, 10, ""},
	{"../config/internal/document", []string{"Fault", "Whole"}, 10, ""},
	{"..", []string{"fail"}, 25, ""}, // limits
	{"../policy", []string{"fault"}, 55, ""},
	{"../policy/evaluate", []string{"fault"}, 1, ""},
	{"../policy", []string{"fail"}, 6, "; use for example 10min after 20 denials/min"}, // blocks
	{"../redisstore/redisurl", []string{"fault", "Errorf"}, 1, ""},
	{"../redisstore/options.go", []string{"Errorf"}, 1, ""},
	{"../config/upstream", []string{"Errorf"}, 1, ""},
}

// TestErrorsSayWhatToDo: each error of a command or a configuration says what to do,
// names the condition, or ends with its cause.
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, source := range sources {
		list := faults(t, source.path, source.calls)
		if len(list) < source.least {
			t.Errorf("%s: %d errors, expected %d or more", source.path, len(list), source.least)
		}
		for _, text := range list {
			if !helps(text + source.suffix) {
				t.Errorf("%s: %q does not say what to do", source.path, text)
			}
		}
	}
}

func helps(text string) bool {
	for _, part := range []string{"; ", "expected ", " must ", " needs ", " goes with ", "at most ", "such as "} {
		if strings.Contains(text, part) {
			return true
		}
	}
	for _, cause := range []string{"%v", "%w", "%s"} {
		if strings.HasSuffix(text, cause) {
			return true
		}
	}
	return false
}

// message is a line of the table of messages in runbook.md, which begins with a text.
var message = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// TestMessages: the program has the messages that runbook.md explains. "…" stands for
// any text.
func TestMessages(t *testing.T) {
	_, section, found := strings.Cut(read(t, "runbook.md"), "\n## Messages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var parts []string
	for _, m := range message.FindAllStringSubmatch(section, -1) {
		parts = append(parts, strings.Split(m[1], "…")...)
	}
	if !found || len(parts) < 10 {
		t.Fatalf("%d messages", len(parts))
	}
	for _, dir := range []string{"../config", "../memstore", "../redisstore", "../server"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			parts = slices.DeleteFunc(parts, func(part string) bool { return bytes.Contains(source, []byte(strings.TrimSpace(part))) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range parts {
		t.Errorf("no package has the message %q", part)
	}
}

// faults returns the texts of the errors of a package or a file.
func faults(t *testing.T, path string, calls []string) (list []string) {
	t.Helper()
	files := []string{path}
	if filepath.Ext(path) != ".go" {
		var err error
		if files, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains(calls, called(call)) {
				return true
			}
			for _, arg := range call.Args {
				if text, ok := literal(arg); ok {
					if strings.Contains(text, " ") && !slices.Contains(list, text) {
						list = append(list, text)
					}
					break
				}
			}
			return true
		})
	}
	return list
}

// called returns the last name of the called function.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// literal returns the text of a literal, or of several that are joined.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, ok2 := literal(e.Y)
		return a + b, ok && ok2
	}
	return "", false
}
