// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package plainyaml_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluicegate/sluice/internal/plainyaml"
)

// read reads a text by this package, and reports whether it could.
func read(text string) (root *yaml.Node, ok bool) { return plainyaml.Read(text, func() {}) }

// differs compares what is read of a text with what yaml.v3 reads, and returns the first
// difference, empty if there is none.
func differs(text string, got *yaml.Node) string {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var want, second yaml.Node
	if err := dec.Decode(&want); err != nil {
		return fmt.Sprintf("yaml.v3: %v", err)
	}
	if err := dec.Decode(&second); err == nil {
		return "there is a second document"
	}
	return nodesDiffer(got, want.Content[0])
}

func nodesDiffer(got, want *yaml.Node) string {
	tag := want.Tag
	if want.Kind == yaml.ScalarNode && tag != "!!null" && tag != "!!merge" {
		tag = "!!str"
	}
	if got.Kind != want.Kind || got.Tag != tag || got.Value != want.Value || got.Style != want.Style || got.Line != want.Line || got.Column != want.Column || len(got.Content) != len(want.Content) {
		return fmt.Sprintf("at %d:%d: got %+v, want %+v", want.Line, want.Column, *got, *want)
	}
	for i := range got.Content {
		if d := nodesDiffer(got.Content[i], want.Content[i]); d != "" {
			return d
		}
	}
	return ""
}

func TestRead(t *testing.T) {
	for _, text := range []string{
		"a: b\n", "a: b", "a:   b   \n\n", "# c\na: b # c\n", "a: b#c\n", "a: \"b\" # c\n", "a: 'b # c'\n", "\"a b\": c\n", "'a': ~\n",
		"a:\n  b: c\n  d: e\nf: g\n", "a: # c\n  b: c\n", "a:\n- b\n- c\nd: e\n", "a:\n  - b\n  - c\nd: e\n", "a:\n  - b: c\n    d: e\n  - f: g\n",
		"a:\n- b: c\n  d:\n  - e\n  - f\n- g: h\nz: 1\n", "a:\n  -   b: c\n      d: e\n", "a: [b, c]\n", "a: [b, c, ]\n", "a: []\nb: {}\n", "a: {b: c, d: [e, f]}\n",
		"a: [b,\n  c, # d\n  {e: f}\n]\n", "a: [ b , c ]\n", "a: [b c, d  e]\n", "a: [http://x:1/y, 'b', \"c\"]\n", "a: {b: http://x}\n", "a: http://x:1/y\n", "a: b:c\n", "a: b, c\n",
		"a: b [c] {d}\n", "a: 10.0.0.0/8\n", "a: -1\n", "a: <<\n", "<<: b\n", "a: null\n", "null: a\n", "a: /v1/{id}\n", "a: a?b\n", "a: ü # é\nü: [ü, b]\n", "a:\n\n  # c\n  b: c\n# d\n",
		"a: it's\n", "a: b \"c\"\n", "a: 'b' # c\n", "a: true\n", "a: 2026-01-01\n", "a:\n  b:\n    c:\n      - d\n    e: f\n  g: h\ni: j\n",
	} {
		got, ok := read(text)
		if !ok {
			t.Errorf("%q is not read", text)
		} else if d := differs(text, got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// TestLeft: what may mean something else is left to yaml.v3.
func TestLeft(t *testing.T) {
	for _, text := range []string{
		"", "\n", "# c\n", "a\n", "- a\n", "[a]\n", "{a: b}\n", "  a: b\n", "---\na: b\n", "a: b\n---\nc: d\n", "a: b\n...\n", "%YAML 1.2\n---\na: b\n", "\ufeffa: b\n",
		"a: &x b\nc: *x\n", "a: !!str b\n", "a: |\n  b\n", "a: >-\n  b\n", "? a\n: b\n", "a: b\n  c\n", "a: \"b\n  c\"\n", "a: 'b''c'\n", "a: \"b\\n\"\n", "a:\tb\n", "a: b\r\nc: d\r\n",
		"a:\n", "a:\nb: c\n", "a:\n  - \n", "a:\n  -\n    b\n", "a:\n  b\n", "a: - b\n", "a: b: c\n", "a: [b: c]\n", "a: [b\n  c]\n", "a: {b, c}\n", "a: {\"b\":c}\n", "a: [b]: c\n", "a: [b\n", "a: [b}\n",
		"a: b\n c: d\n", "  a: b\nc: d\n", "a:\n    b: c\n  d: e\n", "a:\n  - b\n c: d\n", "a:\n  - b\n    c\n", "a: @b\n", "a: `b\n", "a: %b\n", "a: ,b\n", "a b\n", "a: [,]\n", "a: [b,,c]\n", "a: b\x00\n", "a: \x80\n", "a: b\u0085\n", "a: b\u2028\n",
		"a: \"b\" c\n", "a: 'b'#c\n", "a: [b]#c\n", "a:\n  - - b\n", "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n", strings.Repeat("a", 1030) + ": b\n",
	} {
		if got, ok := read(text); ok {
			t.Errorf("%q is read; by yaml.v3 %s", text, differs(text, got))
		}
	}
}

// TestFiles: the configurations of this repository are read as by yaml.v3, and most of
// them are read at all.
func TestFiles(t *testing.T) {
	all, some := 0, 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || entry.IsDir() || ext != ".yaml" && ext != ".yml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all++
		if got, ok := read(string(data)); ok {
			some++
			if d := differs(string(data), got); d != "" {
				t.Errorf("%s: %s", path, d)
			}
		} else {
			t.Logf("left: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d of %d files", some, all); some < all/2 {
		t.Errorf("%d of %d files are read; want half of them or more", some, all)
	}
}

// TestPieces: texts put together of pieces at random are read as by yaml.v3, if at all.
func TestPieces(t *testing.T) {
	pieces := []string{
		"a", "b", "a b", ": ", ":", ":\n", "- ", "-", "\n", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n- ", "\n  - ", "a: b\n", "  c: d\n", "- e: f\n", "g:\n", "[", "]", "{", "}", ", ", ",",
		"'", "\"", "#", " # c\n", " ", "~", "<<", "?", "&x ", "*x", "|", "ü", "\\", "[a, b]", "{a: b}", "'a'", "\"b\"", "\t", "...", "---", "%", "!", "@", "a: ", "b: ", "- a: ",
	}
	texts := 200_000
	if testing.Short() {
		texts = 20_000
	}
	random, ok := rand.New(rand.NewPCG(1, 2)), 0
	for range texts {
		text := "a: b\n"
		for range random.IntN(12) {
			text += pieces[random.IntN(len(pieces))]
		}
		got, readable := read(text)
		if !readable {
			continue
		}
		ok++
		if d := differs(text, got); d != "" {
			t.Fatalf("%q: %s", text, d)
		}
	}
	if ok < texts/50 {
		t.Errorf("%d of %d texts are read; want more, for this test to mean something", ok, texts)
	}
}

// TestPauses: others are let run throughout.
func TestPauses(t *testing.T) {
	text, pauses := strings.Repeat("# c\n", 10_000)+"a: b\n", 0
	if _, ok := plainyaml.Read(text, func() { pauses++ }); !ok || pauses < len(text)/1100 {
		t.Errorf("pause was called %d times for %d bytes", pauses, len(text))
	}
}

// FuzzRead: whatever this package reads yaml.v3 reads likewise.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"a: b\n", "a:\n- b: [c, {d: 'e'}]\n  f: \"g\"\n- h\ni:\n  j: k # l\n", "a: {b: c,\n  d: e # f\n}\n", "a:\n  - b: c:d\n    e: f#g\n", "ü: [ü , ~, <<, -1]\nnull: ~\n",
		"a: [b c , http://d?e=f&g]\n", "a:\n b:\n  c:\n  - d\n e: f\n", "a: b\n\n  # c\n\nd: e\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := read(text); ok {
			if d := differs(text, got); d != "" {
				t.Errorf("%q: %s", text, d)
			}
		}
	})
}
