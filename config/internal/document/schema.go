// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"slices"

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
	d.recorded = &recorder{at: make(map[*yaml.Node]*shape)}
	d.most = 1 << 30
	return d.recorded.of(func(n *yaml.Node) { read(d, n) })
}

// Recording reports whether the decoder notes what is read, and nothing is.
func (d *Decoder) Recording() bool { return d.recorded != nil }

// Words notes that a text may be one of these words.
func (d *Decoder) Words(n *yaml.Node, words ...string) {
	d.recorded.note(n, func(s *shape) { s.words = append(s.words, words...) })
}

// Items notes the form of a list's items. It reports whether the decoder is recording.
func (d *Decoder) Items(n *yaml.Node, read func(n *yaml.Node)) bool { return d.recorded.items(n, read) }

// recorder records what the decoder accepts: the decoder is passed nodes of each kind, and the
// recorder notes what it asks of them. All methods do nothing for a nil recorder, which a
// decoder of a file has.
type recorder struct {
	at map[*yaml.Node]*shape
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

// of returns the shape that a reader accepts.
func (r *recorder) of(read func(n *yaml.Node)) *shape {
	s := new(shape)
	for _, n := range []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "?"}, {Kind: yaml.MappingNode, Tag: "!!map"}, {Kind: yaml.SequenceNode, Tag: "!!seq"}} {
		r.at[n] = s
		read(n)
		delete(r.at, n)
	}
	return s
}

// Mapping notes the keys of a mapping. It reports whether r records.
func (r *recorder) mapping(n *yaml.Node, fields []Field) bool {
	if r == nil {
		return false
	}
	s := r.at[n]
	if s == nil || n.Kind != yaml.MappingNode {
		return true
	}
	if s.keys == nil {
		s.keys = make(map[string]*shape)
	}
	s.required = nil
	for _, f := range fields {
		of := r.of(f.Read)
		of.description = f.Text
		s.keys[f.Name] = of
		if f.required {
			s.required = append(s.required, f.Name)
		}
	}
	return true
}

func (r *recorder) pairs(n *yaml.Node, read func(key, value *yaml.Node)) bool {
	if r == nil {
		return false
	}
	if s := r.at[n]; s != nil && n.Kind == yaml.MappingNode {
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "?"}
		s.value = r.of(func(n *yaml.Node) { read(key, n) })
	}
	return true
}

func (r *recorder) items(n *yaml.Node, read func(n *yaml.Node)) bool {
	if r == nil || n.Kind != yaml.SequenceNode {
		return r != nil
	}
	if s := r.at[n]; s != nil {
		s.item = r.of(read)
	}
	return true
}

func (r *recorder) note(n *yaml.Node, note func(s *shape)) {
	if r == nil || n.Kind != yaml.ScalarNode {
		return
	}
	if s := r.at[n]; s != nil {
		note(s)
	}
}

func (r *recorder) text(n *yaml.Node) { r.note(n, func(s *shape) { s.text = true }) }

func (r *recorder) flag(n *yaml.Node) { r.note(n, func(s *shape) { s.boolean = true }) }

func (r *recorder) duration(n *yaml.Node) { r.note(n, func(s *shape) { s.duration = true }) }

func (r *recorder) number(n *yaml.Node, least, most int64) {
	r.note(n, func(s *shape) { s.integer = &[2]int64{least, most} })
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
