// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Bounds of a document.
const (
	MaxBytes  = 32 << 20
	fewNodes  = 100_000 // values always accepted, aliased ones counted each time
	maxFaults = 1000
)

// Decoder reads the nodes of a document and collects their faults. A recording decoder passes
// nodes of each kind to the readers instead, and records the properties that they read: see
// [Schema].
type Decoder struct {
	file   string
	faults []Fault
	more   bool // whether there were more than maxFaults
	nodes  int  // read so far
	most   int  // the most nodes that may be read
	over   bool // whether most was exceeded; nothing is read from then on

	shapes map[*yaml.Node]*shape // nil unless the schema is made
}

// New returns a decoder of a file.
func New(file string) *Decoder { return &Decoder{file: file} }

// Enter resolves an alias and counts the node: aliases of aliases can expand to far more than
// the file's size. The file's size bounds their depth. It returns nil once the bound is
// exceeded.
func (d *Decoder) Enter(n *yaml.Node) *yaml.Node {
	at := n
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	switch {
	case d.over:
		return nil
	case d.nodes > d.most:
		d.Fault(at, "aliases make the file more than %d values long; use fewer", d.most)
		d.over = true // later faults would only follow from this one
		return nil
	}
	return n
}

// Field is a key of a mapping: its name, its meaning in a sentence, and the reader of its value.
type Field struct {
	Name string
	Text string
	Read func(n *yaml.Node)

	required bool
}

// Key returns the field of a key.
func Key(name, text string, read func(n *yaml.Node)) Field {
	return Field{Name: name, Text: text, Read: read}
}

// Required returns the field as one that the schema requires. The reader of the mapping reports a
// missing key itself.
func (f Field) Required() Field {
	f.required = true
	return f
}

// Mapping reads a mapping, in which each key may occur once.
func (d *Decoder) Mapping(n *yaml.Node, what string, fields ...Field) {
	if n = d.Enter(n); n == nil || d.note(n, yaml.MappingNode, func(s *shape) { d.fields(s, fields) }) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.Fault(n, "%s is %s; use keys and values: %s", what, Kind(n), names(fields))
		return
	}
	var seen [64]*yaml.Node // no mapping has more fields
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
			d.Fault(key, "merge keys are not read; repeat the keys")
			continue
		}
		at := slices.IndexFunc(fields, func(f Field) bool { return key.Kind == yaml.ScalarNode && f.Name == key.Value })
		switch {
		case at < 0:
			d.Fault(key, "%s has no key %q; use %s", what, Shorten(key.Value), suggestion(key.Value, fields))
		case seen[at] != nil:
			d.Fault(key, "%q is on line %d already; remove one of them", key.Value, seen[at].Line)
		default:
			seen[at] = key
			fields[at].Read(n.Content[i+1])
		}
	}
}

// MappingOr reads a mapping, or calls short for any other node. It reports whether n is a
// mapping.
func (d *Decoder) MappingOr(n *yaml.Node, what string, short func(n *yaml.Node), fields ...Field) bool {
	m := d.Enter(n)
	switch {
	case m == nil:
		return false
	case m.Kind != yaml.MappingNode:
		short(n)
		return false
	}
	d.Mapping(n, what, fields...)
	return true
}

// Pairs reads a mapping with arbitrary keys.
func (d *Decoder) Pairs(n *yaml.Node, what string, most int, read func(key, value *yaml.Node)) {
	if n = d.Enter(n); n == nil || d.note(n, yaml.MappingNode, func(s *shape) {
		s.value = d.shape(func(n *yaml.Node) { read(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "?"}, n) })
	}) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.Fault(n, "%s is %s; use NAME: VALUE", what, Kind(n))
		return
	}
	if len(n.Content)/2 > most {
		d.Fault(n, "%s has %d entries; at most %d are accepted", what, len(n.Content)/2, most)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch line, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			d.Fault(key, "%s: a name is a list or a mapping; use one word", what)
		case twice:
			d.Fault(key, "%q is on line %d already; remove one of them", Shorten(key.Value), line)
		default:
			seen[key.Value] = key.Line
			read(key, n.Content[i+1])
		}
	}
}

// List reads the items of a sequence; any other node is a list of one.
func (d *Decoder) List(n *yaml.Node, read func(n *yaml.Node)) {
	at := n
	if n = d.Enter(n); n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		read(at)
		return
	}
	if d.Items(n, read) {
		return
	}
	if len(n.Content) == 0 {
		d.Fault(n, "an empty list; leave the key out, or write something in it")
	}
	for _, item := range n.Content {
		read(item)
	}
}

// Text reads a scalar verbatim.
func (d *Decoder) Text(n *yaml.Node, what string) (string, bool) {
	if n = d.Enter(n); n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.Fault(n, "%s is %s; use one word or text", what, Kind(n))
		return "", false
	}
	d.note(n, yaml.ScalarNode, func(s *shape) { s.text = true })
	return n.Value, true
}

// Each reads a text or a list of texts.
func (d *Decoder) Each(n *yaml.Node, what string, read func(n *yaml.Node, s string)) {
	d.List(n, func(n *yaml.Node) {
		if s, ok := d.Text(n, what); ok {
			read(n, s)
		}
	})
}

// Texts appends a text or a list of texts.
func (d *Decoder) Texts(n *yaml.Node, what string, into *[]string) {
	d.Each(n, what, func(_ *yaml.Node, s string) { *into = append(*into, s) })
}

// Scalar returns a field with one text.
func (d *Decoder) Scalar(name, text string, read func(n *yaml.Node, s string)) Field {
	return Key(name, text, func(n *yaml.Node) {
		if s, ok := d.Text(n, name); ok {
			read(n, s)
		}
	})
}

// Word returns a field that stores one text, which must not be empty.
func (d *Decoder) Word(name, text string, into *string) Field {
	return d.Scalar(name, text, func(n *yaml.Node, s string) {
		if s == "" {
			d.Fault(n, "%s is empty; leave it out, or write something", name)
		}
		*into = s
	})
}

// Flag returns a field that is true or false.
func (d *Decoder) Flag(name, text string, into *bool) Field {
	return d.Scalar(name, text, func(n *yaml.Node, s string) {
		d.note(n, yaml.ScalarNode, func(s *shape) { s.boolean = true })
		if s != "true" && s != "false" {
			d.Fault(n, "%s is %q; use true or false", name, Shorten(s))
		}
		*into = s == "true"
	})
}

// Number returns a field with a whole number.
func (d *Decoder) Number(name, text string, least, most int64, into *int64) Field {
	return d.Scalar(name, text, func(n *yaml.Node, s string) {
		d.note(n, yaml.ScalarNode, func(s *shape) { s.integer = &[2]int64{least, most} })
		v, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
		if err != nil || v < least || v > most {
			d.Fault(n, "%s is %q; use a whole number from %d to %d", name, Shorten(s), least, most)
			return
		}
		*into = v
	})
}

// Duration returns a field with a time.
func (d *Decoder) Duration(name, text string, least, most time.Duration, into *time.Duration) Field {
	return d.Scalar(name, text, func(n *yaml.Node, s string) {
		d.note(n, yaml.ScalarNode, func(s *shape) { s.duration = true })
		v, err := time.ParseDuration(s)
		if err != nil || v < least || v > most {
			d.Fault(n, "%s is %q; use a time from %v to %v with its unit, such as 1m30s", name, Shorten(s), least, most)
			return
		}
		*into = v
	})
}

// Choice reads one of several words.
func (d *Decoder) Choice(n *yaml.Node, what string, into *string, choices ...string) {
	s, ok := d.Text(n, what)
	d.Words(n, choices...)
	if ok && !slices.Contains(choices, s) {
		d.Fault(n, "%s is %q; use one of %s", what, Shorten(s), strings.Join(choices, ", "))
		return
	}
	*into = s
}

// Enum returns a field with one of the choices, which are in the order of their values.
func Enum[T ~uint8](d *Decoder, name, text string, into *T, choices ...string) Field {
	return Key(name, text, func(n *yaml.Node) {
		var word string
		d.Choice(n, name, &word, choices...)
		*into = T(max(slices.Index(choices, word), 0))
	})
}

// Kind names the kind of a node for error texts.
func Kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		if n.Tag == "!!null" {
			return "empty"
		}
		return fmt.Sprintf("%q", Shorten(n.Value))
	}
}

// Shorten returns a text of a file for an error.
func Shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func names(fields []Field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.Name
	}
	return strings.Join(list, ", ")
}

// Child returns the value of a mapping's key, or nil.
func Child(n *yaml.Node, key string) *yaml.Node {
	n = Resolved(n)
	if n.Kind != yaml.MappingNode || key == "" {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// Resolved returns the node that an alias stands for.
func Resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
