// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// count is the lines of a package.
type count struct {
	code  int // without tests
	lua   int // of them
	tests int
}

func (c *count) add(d count) {
	c.code, c.lua, c.tests = c.code+d.code, c.lua+d.lua, c.tests+d.tests
}

// paths returns the packages in their order.
func paths(counts map[string]count) []string { return slices.Sorted(maps.Keys(counts)) }

// countTree counts the lines of every package below a folder, whatever its module, by
// its path.
func countTree(tree fs.FS) (map[string]count, error) {
	counts := make(map[string]count)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case d.IsDir(), path.Ext(name) != ".go" && path.Ext(name) != ".lua":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		c := counts[path.Dir(name)]
		if err := c.file(name, text); err != nil {
			return err
		}
		counts[path.Dir(name)] = c
		return nil
	})
	return counts, err
}

func (c *count) file(name string, text []byte) error {
	if path.Ext(name) == ".lua" {
		n := luaLines(text)
		c.code, c.lua = c.code+n, c.lua+n
		return nil
	}
	n, err := goLines(name, text)
	if strings.HasSuffix(name, "_test.go") {
		c.tests += n
	} else {
		c.code += n
	}
	return err
}

// goLines counts the lines that a token is on, in whole or in part.
func goLines(name string, text []byte) (int, error) {
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(text))
	var faults scanner.ErrorList
	var s scanner.Scanner
	s.Init(file, text, faults.Add, 0)
	lines := 0
	for last := 0; ; {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // which nobody wrote
		}
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		lines += end - max(first-1, last)
		last = end
	}
	if err := faults.Err(); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return lines, nil
}

// luaLines counts the lines that are neither blank nor a comment.
func luaLines(text []byte) (lines int) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("--")) {
			lines++
		}
	}
	return lines
}
