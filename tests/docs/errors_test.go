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

// sections of errors.md: the packages that check what a user has written, and the
// functions there whose first text is an error.
var sections = []struct {
	title, about string
	least        int
	calls        map[string][]string
	suffix       string // what the called function adds
}{
	{"Commands", "Flags and arguments.", 20, map[string][]string{"../server/cmd/sluice": {"fault", "Usagef"}, "../server/internal/cli": {"fault", "Usagef"}}, ""},
	{"Configuration", "The file, a file of cases, and their keys.", 100, map[string][]string{"../config": {"Fault", "FaultAt", "Whole"}, "../config/cases": {"Fault"}, "../config/internal/document": {"Fault", "Whole"}}, ""},
	{"Limits", "The text of a limit, such as `100/min burst 20`.", 25, map[string][]string{
		"..": {"fail"},
	}, ""},
	{"Rules", "What a rule is made of. These also come from `policy.Compile`, with the name of the Go field.", 60, map[string][]string{
		"../policy": {"fault"}, "../policy/evaluate": {"fault"},
	}, ""},
	{"Blocks", "The text of a block, such as `10min after 20 denials/min`.", 6, map[string][]string{
		"../policy": {"fail"},
	}, "; use for example 10min after 20 denials/min"},
	{"Addresses and URLs", "Upstreams, stores and networks.", 20, map[string][]string{
		"../redisstore/redisurl": {"fault", "Errorf"}, "../redisstore/options.go": {"Errorf"}, "../config/upstream": {"Errorf"}, "../internal/clientip": {"Errorf"},
	}, ""},
}

// TestErrorsPage: errors.md lists the errors of configurations and commands as the
// code has them, each with what to do.
func TestErrorsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Errors\n\nThe errors of `sluice` about a command or a configuration. The part after the last semicolon is what to do.\n`%s`, `%q`, `%v` and `%d` stand for the text in question, or for the expected one. A test writes this page from the code:\n`go -C tests test ./docs -run ErrorsPage -update`.\n")
	for _, section := range sections {
		var list []string
		for dir, calls := range section.calls {
			list = append(list, faults(t, dir, calls)...)
		}
		slices.Sort(list)
		list = slices.Compact(list)
		if len(list) < section.least {
			t.Errorf("%s: %d errors", section.title, len(list))
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| error | what to do |\n|---|---|\n", section.title, section.about)
		for _, text := range list {
			what, do := split(text + section.suffix)
			if do == "" {
				t.Errorf("%s: %q does not say what to do", section.title, text)
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
		t.Error("errors.md is not what the code says; run go -C tests test ./docs -run ErrorsPage -update")
	}
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "{", "&#123;").Replace(text)
}

// split parts an error from what to do: the text after the last semicolon, or the
// condition that it names.
func split(text string) (what, do string) {
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	if i := strings.Index(text, "expected "); i >= 0 {
		return cmp.Or(strings.TrimRight(text[:i], ": "), "other arguments"), text[i:]
	}
	for _, condition := range []string{" must ", " needs ", " goes with ", "at most ", "such as "} {
		if i := strings.LastIndex(text, condition); i >= 0 {
			return text, "correct it: " + strings.TrimSpace(text[i:])
		}
	}
	for _, verb := range []string{"%v", "%w", "%s"} {
		if cause, ok := strings.CutSuffix(text, verb); ok {
			return cause + "…", "see the cause after it"
		}
	}
	return text, ""
}

// faults returns the texts of the faults of a package or a file, in order.
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
					if strings.Contains(text, " ") {
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
