// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command lines counts the lines of code of a tree: those of the product, of
// what only tests use, and of tests. A line counts if it holds code: blank lines
// and comments do not. Examples, documents and other modules are left out.
//
//	lines [DIR]
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
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

// kits are the packages that only tests use.
var kits = []string{"internal/gateway/attack", "internal/redistest", "internal/redistest/faults", "internal/rulekit", "internal/spec", "internal/testkit", "storetest"}

// report writes the counts of packages by their path: first the product's.
func report(w io.Writer, counts map[string]count) error {
	text := []byte("code\tLua of it\ttests\t  package\n")
	row := func(name string, c count) {
		text = fmt.Appendf(text, "%d\t%d\t%d\t  %s\n", c.code, c.lua, c.tests, name)
	}
	var product, kit count
	for _, name := range paths(counts) {
		if !slices.Contains(kits, name) {
			row(name, counts[name])
			product.add(counts[name])
		}
	}
	row("= the product", product)
	for _, name := range paths(counts) {
		if slices.Contains(kits, name) {
			row(name, counts[name])
			kit.add(counts[name])
		}
	}
	row("= what only tests use", kit)
	product.add(kit)
	row("= all", product)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := t.Write(text); err != nil {
		return err
	}
	return t.Flush()
}
