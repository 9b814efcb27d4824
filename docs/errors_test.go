// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write errors.md")

// faultCalls are the functions whose first text is for the author of a
// configuration, or a command.
var faultCalls = map[string][]string{
	"../internal/config": {"fault", "faultAt", "whole"},
	"../cmd/sluice":      {"fault", "Usagef"},
}

// TestErrorsPage: errors.md lists the faults of configurations and commands as the
// code has them, each with what to do.
func TestErrorsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Faults\n\nWhat `sluice` says of a configuration or a command that is wrong, and what it says to do: the text behind the last\nsemicolon. `%s`, `%q`, `%v` and `%d` stand for what was written, or what was expected. Written by `go test ./docs -run ErrorsPage -update`.\n")
	for _, dir := range []string{"../cmd/sluice", "../internal/config"} {
		list := faults(t, dir)
		if len(list) < 20 {
			t.Errorf("%s: %d faults", dir, len(list))
		}
		title := map[string]string{"../internal/config": "Configuration", "../cmd/sluice": "Commands"}[dir]
		fmt.Fprintf(&b, "\n## %s\n\n| fault | what to do |\n|---|---|\n", title)
		for _, text := range list {
			what, do := split(text)
			if do == "" {
				t.Errorf("%s: %q does not say what to do", dir, text)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", cell(what), cell(do))
		}
	}
	if *update {
		if err := os.WriteFile("errors.md", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "errors.md") != b.String() {
		t.Error("errors.md is not what the code says; run go test ./docs -run ErrorsPage -update")
	}
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "{", "&#123;").Replace(text)
}

// split parts a fault from what to do: what follows the last semicolon, or the word
// expected.
func split(text string) (what, do string) {
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	if i := strings.Index(text, "expected "); i >= 0 {
		return cmp.Or(strings.TrimRight(text[:i], ": "), "other arguments"), text[i:]
	}
	for _, verb := range []string{"%v", "%w", "%s"} {
		if cause, ok := strings.CutSuffix(text, verb); ok {
			return cause + "…", "what the cause behind it says"
		}
	}
	return text, ""
}

// faults returns the texts of a package's faults, in order.
func faults(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
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
			if !ok || !slices.Contains(faultCalls[dir], called(call)) {
				return true
			}
			for _, arg := range call.Args {
				if text, ok := literal(arg); ok {
					if strings.Contains(text, " ") {
						list = append(list, text)
					}
					break
				}
			}
			return true
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// called returns the last name of what is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// literal returns a text that is written out, or joined of such.
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
