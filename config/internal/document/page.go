// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Page returns the keys of a document as tables in Markdown, under a heading.
func Page(heading string, read func(d *Decoder, root *yaml.Node)) string {
	var b strings.Builder
	b.WriteString(heading)
	written := map[string]bool{}
	page := []*section{{"", shapeOf(read)}}
	for len(page) > 0 {
		s := page[0]
		if page = page[1:]; written[s.title()] {
			continue
		}
		written[s.title()] = true
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | meaning |\n|---|---|---|\n", s.title())
		for _, name := range slices.Sorted(maps.Keys(s.keys)) {
			of := s.keys[name]
			required := ""
			if slices.Contains(s.required, name) {
				required = " (required)"
			}
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", name, required, of.types(s.path+name), strings.ReplaceAll(of.description, "|", "\\|"))
			page = append(page, of.sections(s.path+name)...)
		}
	}
	return b.String()
}

// section is a mapping with its place in the file.
type section struct {
	path string // empty, or ending in a dot
	*shape
}

func (s *section) title() string {
	if s.path == "" {
		return "The file"
	}
	return strings.TrimSuffix(s.path, ".")
}

// sections returns the mappings at a place.
func (s *shape) sections(path string) (all []*section) {
	if s.keys != nil {
		all = append(all, &section{path + ".", s})
	}
	if s.item != nil && (s.keys == nil || s.item.keys == nil) {
		all = append(all, s.item.sections(path)...)
	}
	if s.value != nil {
		all = append(all, s.value.sections(path+".NAME")...)
	}
	return all
}

// types names the types of a value.
func (s *shape) types(path string) string {
	var all []string
	switch {
	case len(s.words) > 8:
		all = append(all, "a name")
	case len(s.words) > 0:
		all = append(all, "`"+strings.Join(s.words, "`, `")+"`")
	}
	if s.integer != nil {
		all = append(all, fmt.Sprintf("%d to %d", s.integer[0], s.integer[1]))
	}
	if s.boolean {
		all = append(all, "`true`, `false`")
	}
	if s.duration {
		all = append(all, "duration")
	}
	if s.text && len(all) == 0 {
		all = append(all, "text")
	}
	if s.keys != nil {
		all = append(all, "[mapping](#"+strings.ReplaceAll(strings.ToLower(path), ".", "")+")")
	}
	if s.value != nil {
		all = append(all, "mapping of names")
	}
	switch {
	case s.item != nil && s.keys == nil && s.item.keys != nil:
		all = append(all, "list of [mappings](#"+strings.ReplaceAll(strings.ToLower(path), ".", "")+")")
	case s.item != nil:
		all = append(all, "list")
	}
	return strings.Join(all, ", or ")
}
