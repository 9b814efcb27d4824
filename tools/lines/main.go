// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command lines counts the lines of code of a tree with all its modules: those of
// the product, of what only tests use, and of what stands beside both: benchmarks,
// tools, examples, and what deploys or documents. A line counts if it holds code:
// blank lines and comments do not.
//
//	lines [DIR]
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	counts, err := countTree(os.DirFS(root))
	if err == nil {
		err = report(os.Stdout, counts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

// groups are what is summed, with the folders of each. A folder that is in none
// belongs to the first.
var groups = []struct {
	name    string
	folders []string
}{
	{"the product", nil},
	{"what only tests use", []string{
		"adapters/internal/limittest", "server/internal/gateway/attack", "internal/redistest", "internal/rulekit",
		"server/internal/serve/servetest", "server/internal/page/browser", "server/internal/front/rls/oracle", "internal/spec", "internal/testkit", "storetest", "tests",
	}},
	{"beside", []string{"adapters/examples", "bench", "deploy", "docs", "examples", "tools"}},
}

// groupOf returns the index of a package's group.
func groupOf(name string) int {
	for i, g := range groups {
		for _, folder := range g.folders {
			if strings.HasPrefix(name+"/", folder+"/") {
				return i
			}
		}
	}
	return 0
}

// report writes the counts of packages by their path, group by group.
func report(w io.Writer, counts map[string]count) error {
	text := []byte("code\tLua of it\ttests\t  package\n")
	row := func(name string, c count) {
		text = fmt.Appendf(text, "%d\t%d\t%d\t  %s\n", c.code, c.lua, c.tests, name)
	}
	var all count
	for i, g := range groups {
		var sum count
		for _, name := range paths(counts) {
			if groupOf(name) == i {
				row(name, counts[name])
				sum.add(counts[name])
			}
		}
		row("= "+g.name, sum)
		all.add(sum)
	}
	row("= all", all)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := t.Write(text); err != nil {
		return err
	}
	return t.Flush()
}
