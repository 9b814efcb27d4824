// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Schema returns a JSON Schema (draft 2020-12) of a document, from the code that reads its root.
func Schema(title string, read func(d *Decoder, root *yaml.Node)) []byte {
	doc := shapeOf(read).schema()
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = title
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil // texts, numbers and maps can always be marshaled
	}
	return append(text, '\n')
}

// shapeOf returns the shape of a document.
func shapeOf(read func(d *Decoder, root *yaml.Node)) *shape {
	d := New("")
	d.shapes = make(map[*yaml.Node]*shape)
	d.most = 1 << 30
	return d.shape(func(n *yaml.Node) { read(d, n) })
}

// Recording reports whether the decoder records shapes instead of reading a document.
func (d *Decoder) Recording() bool { return d.shapes != nil }

// Words records that a text may be one of these words.
func (d *Decoder) Words(n *yaml.Node, words ...string) {
	d.note(n, yaml.ScalarNode, func(s *shape) { s.words = append(s.words, words...) })
}

// Items records the form of a list's items. It reports whether the decoder is recording.
func (d *Decoder) Items(n *yaml.Node, read func(n *yaml.Node)) bool {
	return d.note(n, yaml.SequenceNode, func(s *shape) { s.item = d.shape(read) })
}

// note records a property of a node of a kind. It reports whether the decoder is recording.
func (d *Decoder) note(n *yaml.Node, kind yaml.Kind, note func(s *shape)) bool {
	if s := d.shapes[n]; s != nil && n.Kind == kind {
		note(s)
	}
	return d.Recording()
}

// shape is the form of a value.
type shape struct {
	text        bool
	integer     *[2]int64 // least and most
	boolean     bool
	duration    bool
	words       []string
	item        *shape            // of a list
	value       *shape            // of a mapping with arbitrary keys
	keys        map[string]*shape // of any other mapping
	required    []string
	description string
}

// shape returns the shape that a reader accepts.
func (d *Decoder) shape(read func(n *yaml.Node)) *shape {
	s := new(shape)
	for _, n := range []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "?"}, {Kind: yaml.MappingNode, Tag: "!!map"}, {Kind: yaml.SequenceNode, Tag: "!!seq"}} {
		d.shapes[n] = s
		read(n)
		delete(d.shapes, n)
	}
	return s
}

// fields records the keys of a mapping.
func (d *Decoder) fields(s *shape, fields []Field) {
	if s.required = nil; s.keys == nil {
		s.keys = make(map[string]*shape)
	}
	for _, f := range fields {
		of := d.shape(f.Read)
		of.description = f.Text
		if s.keys[f.Name] = of; f.required {
			s.required = append(s.required, f.Name)
		}
	}
}

// schema returns the shape in JSON Schema.
func (s *shape) schema() map[string]any {
	var forms []map[string]any
	switch scalar := s.scalars(); {
	case len(scalar) > 0:
		forms = scalar
	case s.text:
		forms = append(forms, map[string]any{"type": []string{"string", "number", "boolean"}})
	}
	if s.item != nil {
		forms = append(forms, map[string]any{"type": "array", "items": s.item.schema()})
	}
	switch {
	case s.value != nil:
		forms = append(forms, map[string]any{"type": "object", "additionalProperties": s.value.schema()})
	case s.keys != nil:
		keys := make(map[string]any, len(s.keys))
		for name, of := range s.keys {
			keys[name] = of.schema()
		}
		object := map[string]any{"type": "object", "properties": keys, "additionalProperties": false}
		if s.required != nil {
			object["required"] = s.required
		}
		forms = append(forms, object)
	}
	doc := map[string]any{"anyOf": forms}
	if len(forms) == 1 {
		doc = forms[0]
	}
	if s.description != "" {
		doc["description"] = s.description
	}
	return doc
}

// scalars returns the forms that are narrower than any text.
func (s *shape) scalars() (forms []map[string]any) {
	if len(s.words) > 0 {
		words := slices.Clone(s.words)
		slices.Sort(words)
		forms = append(forms, map[string]any{"enum": slices.Compact(words)})
	}
	if s.integer != nil {
		forms = append(forms, map[string]any{"type": "integer", "minimum": s.integer[0], "maximum": s.integer[1]}, map[string]any{"type": "string", "pattern": "^[0-9][0-9_]*$"})
	}
	if s.boolean {
		forms = append(forms, map[string]any{"type": "boolean"})
	}
	if s.duration {
		forms = append(forms, map[string]any{"type": "string", "pattern": `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`})
	}
	return forms
}

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
