// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ (.+)$")
	code    = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestLinks: what the documents refer to is there, headings included.
func TestLinks(t *testing.T) {
	var files []string
	for _, glob := range []string{"*.md", "start/*.md", "adr/*.md", "../*.md", "../examples/*.md", "../bench/*.md", "../deploy/*.md", "../adapters/*.md"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, names...)
	}
	n := 0
	for _, file := range files {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			n++
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), filepath.FromSlash(target))
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s: %v", file, m[1], err)
				continue
			}
			if anchor != "" && strings.HasSuffix(path, ".md") && !anchors(t, path)[anchor] {
				t.Errorf("%s: %s: there is no such heading", file, m[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("%d links", n)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the names of a document's headings, as GitHub makes them.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r > 127:
				return r
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.ToLower(m[1]))
		all[name] = true
	}
	return all
}
