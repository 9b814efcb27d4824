// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command texts lists the texts that people read: those of at least three words in the
// product's Go code, and those of the page, each with its file and line. It is for reading
// them in one go.
//
//	texts [DIR]
package main

import (
	"bufio"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	out := bufio.NewWriter(os.Stdout)
	err := list(out, os.DirFS(root))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "texts:", err)
		os.Exit(1)
	}
}

// skipped are the folders whose texts only developers read.
var skipped = []string{
	"adapters/examples", "adapters/internal/limittest", "bench", "deploy", "docs", "examples", "internal/redistest", "internal/rulekit", "internal/spec",
	"internal/testkit", "server/internal/front/rls/oracle", "server/internal/gateway/attack", "server/internal/page/browser",
	"server/internal/serve/servetest", "storetest", "tests", "tools",
}

// list writes the texts of all files of a tree.
func list(w io.Writer, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(name); d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || skips(name)) {
				return fs.SkipDir
			}
			return nil
		}
		texts := textsOf(name)
		if texts == nil {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, t := range texts(data) {
			if _, err := fmt.Fprintf(w, "%s:%d: %s\n", name, t.line, t.text); err != nil {
				return err
			}
		}
		return nil
	})
}

func skips(folder string) bool {
	for _, s := range skipped {
		if folder == s {
			return true
		}
	}
	return false
}

// text is a text and its line in a file, from 1.
type text struct {
	line int
	text string
}

// textsOf returns the function that finds the texts of a file, nil if none are for people.
func textsOf(name string) func([]byte) []text {
	switch path.Ext(name) {
	case ".go":
		if !strings.HasSuffix(name, "_test.go") {
			return goTexts
		}
	case ".js":
		if path.Base(name) != "uplot.js" { // not ours
			return scriptTexts
		}
	case ".html":
		return pageTexts
	}
	return nil
}

// sentence is a text that has three words.
var sentence = regexp.MustCompile(`\pL+[^\pL]*\s[^\pL]*\pL+[^\pL]*\s[^\pL]*\pL+`)

// goTexts returns the literals of Go code, with those that are added up as one.
func goTexts(data []byte) (texts []text) {
	files := token.NewFileSet()
	var s scanner.Scanner
	file := files.AddFile("", -1, len(data))
	s.Init(file, data, nil, 0)
	var last token.Token
	joined := false // the last token adds to a literal
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return sentences(texts)
		case tok == token.STRING:
			value, err := strconv.Unquote(lit)
			if err != nil {
				break
			}
			if joined {
				texts[len(texts)-1].text += value
				break
			}
			texts = append(texts, text{file.Line(pos), value})
		}
		joined = tok == token.ADD && last == token.STRING
		last = tok
	}
}

// A literal of a script: in quotes, or between backquotes with its parts in ${}.
var literal = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`(?:[^`\\\\]|\\\\.)*`")

// comment is a comment of a script that has its line.
var comment = regexp.MustCompile(`(?m)^\s*//.*$`)

func scriptTexts(data []byte) (texts []text) {
	data = comment.ReplaceAll(data, nil)
	for _, at := range literal.FindAllIndex(data, -1) {
		texts = append(texts, text{lineOf(data, at[0]), string(data[at[0]+1 : at[1]-1])})
	}
	return sentences(texts)
}

// between is a text between the tags of a page.
var between = regexp.MustCompile(`>[^<>]+<`)

func pageTexts(data []byte) (texts []text) {
	for _, at := range between.FindAllIndex(data, -1) {
		texts = append(texts, text{lineOf(data, at[0]), strings.TrimSpace(string(data[at[0]+1 : at[1]-1]))})
	}
	return sentences(texts)
}

func lineOf(data []byte, at int) int { return 1 + strings.Count(string(data[:at]), "\n") }

// sentences returns the texts that have three words, each in one line.
func sentences(texts []text) []text {
	kept := texts[:0]
	for _, t := range texts {
		if sentence.MatchString(t.text) {
			kept = append(kept, text{t.line, strings.Join(strings.Fields(t.text), " ")})
		}
	}
	return kept
}
