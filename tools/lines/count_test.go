// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"testing"
	"testing/fstest"
)

func TestGoLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"blank lines and comments", "// a\n\npackage a // b\n\n/* c\nd */\n", 1},
		{"code beside a comment", "package a\n/* b */ var c int /* d\n */ var e int\n", 3},
		{"two statements on a line", "package a\nvar b, c = 1, 2; var d = 3\n", 2},
		{"a text of several lines", "package a\nconst b = `1\n\n// 3`\nconst c = 1\n", 5},
		{"a line that ends in a brace", "package a\nfunc b() {\n\t// c\n}\n", 3},
		{"a token that ends where another begins", "package a\nvar b = f(`1\n2`, `3\n4`)\n", 4},
		{"no line at the end", "package a", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := goLines("a.go", []byte(c.text)); err != nil || got != c.want {
				t.Errorf("got %d, %v, want %d", got, err, c.want)
			}
		})
	}
	if _, err := goLines("a.go", []byte("package a\nvar b = \"\n")); err == nil {
		t.Error("a text without an end: got no error")
	}
}

// TestCountTree: the files of all modules count, those of hidden folders and of testdata
// do not.
func TestCountTree(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := countTree(fstest.MapFS{
		"a.go":            file("package a\n"),
		"a_test.go":       file("package a\n\nvar b int\n"),
		"README.md":       file("a\n"),
		"b/b.lua":         file("-- a\n\nreturn 1\n  -- c\n"),
		"b/testdata/c.go": file("package c\n"),
		".f/f.go":         file("package f\n"),
		"bench/go.mod":    file("module n\n"),
		"bench/g.go":      file("package g\n"),
	})
	want := map[string]count{".": {code: 1, tests: 2}, "b": {code: 1, lua: 1}, "bench": {code: 1}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestGroups(t *testing.T) {
	for name, want := range map[string]string{
		".": "the product", "benchmark": "the product", "internal/testkit": "what only tests use",
		"internal/redistest/teststore": "what only tests use", "tools/lines": "beside", "examples": "beside",
	} {
		if got := groups[groupOf(name)].name; got != want {
			t.Errorf("%s belongs to %s, want %s", name, got, want)
		}
	}
}
