// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// printedFile matches the line before each file in the output of nginx -T.
var printedFile = regexp.MustCompile(`(?m)^# configuration file (.+):\r?$`)

// printed returns the files in the output of nginx -T, the first of which includes the others,
// or the file itself.
func printed(f File) []File {
	heads := printedFile.FindAllStringSubmatchIndex(f.Text, -1)
	if len(heads) == 0 {
		return []File{f}
	}
	files := make([]File, len(heads))
	for i, h := range heads {
		end := len(f.Text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		files[i] = File{Name: f.Text[h[2]:h[3]], Text: strings.TrimPrefix(f.Text[h[1]:end], "\n"), Part: f.Part || i > 0}
	}
	return files
}

// read returns the content of http in all files that no other one includes.
func (c *converter) read() (*block, error) {
	included := map[int]bool{}
	trees := make([][]*directive, len(c.files))
	for i, f := range c.files {
		if f.Part {
			continue
		}
		var err error
		if trees[i], err = c.parse(i, included, 0); err != nil {
			return nil, err
		}
	}
	http := &block{}
	for i, tree := range trees {
		if included[i] {
			continue
		}
		if blocks := all(tree, "http"); len(blocks) > 0 {
			for _, d := range blocks {
				http.list = append(http.list, d.block...)
			}
		} else if len(all(tree, "stream")) == 0 { // a part of a configuration
			http.list = append(http.list, tree...)
		}
		for _, d := range all(tree, "stream") {
			walk(d.block, func(d *directive) {
				if d.name == "limit_conn" {
					c.note(d, "limit_conn in stream: limits connections; not kept")
				}
			})
		}
	}
	return http, nil
}

// parse reads a file and the files that it includes.
func (c *converter) parse(i int, included map[int]bool, depth int) ([]*directive, error) {
	f := c.files[i]
	if c.size += len(f.Text); c.size > 4*MaxBytes {
		return nil, &SyntaxError{f.Name, 1, "is included too often to be a configuration"}
	}
	tree, err := parse(f.Name, f.Text)
	if err != nil {
		return nil, err
	}
	return c.include(tree, i, included, depth)
}

// include replaces include directives by the content of the files.
func (c *converter) include(list []*directive, file int, included map[int]bool, depth int) (full []*directive, err error) {
	for _, d := range list {
		if c.count++; c.count > maxDirectives || depth > maxDepth {
			return nil, &SyntaxError{d.file, d.line, "too many directives, or files within files, to be a configuration"}
		}
		if d.block != nil {
			if d.block, err = c.include(d.block, file, included, depth); err != nil {
				return nil, err
			}
		}
		if d.name != "include" {
			full = append(full, d)
			continue
		}
		found := c.match(d.arg(0), file)
		for _, i := range found {
			included[i] = true
			tree, err := c.parse(i, included, depth+1)
			if err != nil {
				return nil, err
			}
			full = append(full, tree...)
		}
		base := path.Base(d.arg(0))
		if len(found) == 0 && base != "mime.types" && !strings.HasSuffix(base, "_params") {
			c.note(d, "include %s: is not among the files that were read; give it, too, or what nginx -T prints", d.arg(0))
		}
	}
	return full, nil
}

// match returns the files that an include names. Their folders may differ from nginx's: the
// longest matching end of a name counts, and a wildcard needs the folder.
func (c *converter) match(pattern string, from int) (found []int) {
	parts := strings.Split(strings.TrimPrefix(pattern, "./"), "/")
	nearest := 0
	for k := range parts {
		tail := parts[k:]
		if len(tail) == 1 && len(parts) > 1 && strings.ContainsAny(tail[0], "*?[") {
			break
		}
		for i, f := range c.files {
			names := strings.Split(f.Name, "/")
			if i == from || len(names) < len(tail) {
				continue
			}
			if ok, err := path.Match(strings.Join(tail, "/"), strings.Join(names[len(names)-len(tail):], "/")); ok && err == nil {
				switch above := len(names) - len(tail); { // the nearest folder counts
				case len(found) == 0 || above < nearest:
					found, nearest = []int{i}, above
				case above == nearest:
					found = append(found, i)
				}
			}
		}
		if len(found) > 0 {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return strings.Compare(c.files[a].Name, c.files[b].Name) })
	return found
}

// block is http, a server or a location with its directives.
type block struct {
	list   []*directive
	around *block // nil: http
}

// effective returns the directives of a name in effect in a block: those of the innermost
// enclosing block with any.
func (b *block) effective(name string) []*directive {
	for ; b != nil; b = b.around {
		if own := all(b.list, name); len(own) > 0 {
			return own
		}
	}
	return nil
}

// value returns the first argument of the directive in effect, or none without one.
func (b *block) value(name, none string) string {
	if own := b.effective(name); len(own) > 0 {
		return own[len(own)-1].arg(0)
	}
	return none
}
