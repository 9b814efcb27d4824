// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestList(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	var got strings.Builder
	err := list(&got, fstest.MapFS{
		"a.go":          file("package a\n\n// a comment with words\nvar b = f(\"no store \" + \"is open\", \"two words\", \"a store is %d\",\n\t`of two\nlines`)\n"),
		"a_test.go":     file("package a\n\nvar b = \"a text of tests\"\n"),
		"docs/draw.go":  file("package draw\n\nvar b = \"a text of documentation\"\n"),
		"page/a.js":     file("// \"a comment with words\"\nsay(\"bad\", `The store is ${state}.`);\nconst a = \"one \\\" two three\";\n"),
		"page/uplot.js": file("const a = \"a text of others\";\n"),
		"page/a.html":   file("<p title=\"x\">Look up\n a key</p>\n<b>Name</b>\n"),
	})
	const want = `a.go:4: no store is open
a.go:4: a store is %d
a.go:5: of two lines
page/a.html:1: Look up a key
page/a.js:2: The store is ${state}.
page/a.js:3: one \" two three
`
	if err != nil || got.String() != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, &got, want)
	}
}
