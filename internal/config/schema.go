// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/internal/profile"
)

// Schema returns a JSON Schema (draft 2020-12) of the file, by which editors complete
// and check it as it is written. It follows from the code that reads the file. It says
// which keys there are and of what type; what their texts may be only [Parse] knows. It
// must not be changed.
func Schema() []byte { return schema() }

var schema = sync.OnceValue(func() []byte {
	doc := root().schema()
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "sluice's configuration"
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil // it is made of texts, numbers and maps
	}
	return append(text, '\n')
})

// root returns what a file may be.
func root() *shape {
	d := newDecoder("")
	d.recorded = &recorder{at: make(map[*yaml.Node]*shape)}
	d.most = 1 << 30
	return d.recorded.of(func(n *yaml.Node) { d.config(n, new(Config)) })
}

// recorder notes what the decoder would accept: it is given nodes of each kind, and
// given what it asks of them. All methods do nothing for nil, which a decoder has that
// reads a file.
type recorder struct {
	at map[*yaml.Node]*shape
}

// shape is what may stand somewhere.
type shape struct {
	text        bool
	integer     *[2]int64 // least and most
	boolean     bool
	duration    bool
	words       []string
	item        *shape            // of a list
	value       *shape            // of a mapping whose keys are the writer's
	keys        map[string]*shape // of any other
	required    []string
	description string
}

// of returns what a reader accepts.
func (r *recorder) of(read func(n *yaml.Node)) *shape {
	s := new(shape)
	for _, n := range []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "?"}, {Kind: yaml.MappingNode, Tag: "!!map"}, {Kind: yaml.SequenceNode, Tag: "!!seq"}} {
		r.at[n] = s
		read(n)
		delete(r.at, n)
	}
	return s
}

// mapping notes the keys of a mapping. It reports whether the node is one to take notes of.
func (r *recorder) mapping(n *yaml.Node, what string, fields []field) bool {
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
	s.required = required[what]
	for _, f := range fields {
		of := r.of(f.read)
		if of.description = meanings[what+"."+f.name]; of.description == "" {
			of.description = meanings[f.name]
		}
		s.keys[f.name] = of
	}
	return true
}

// required are the keys without which there is no such mapping.
var required = map[string][]string{"the file": {"rules"}, "a rule": {"name"}, "tls": {"cert", "key"}}

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

func (r *recorder) words(n *yaml.Node, words ...string) {
	r.note(n, func(s *shape) { s.words = append(s.words, words...) })
}

// schema returns the shape as JSON Schema has it.
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

// scalars returns the forms of what is more than any text.
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

// profileNames returns the platforms that a rule may be like.
func profileNames() (names []string) {
	for _, p := range profile.All() {
		names = append(names, p.Name)
	}
	return names
}
