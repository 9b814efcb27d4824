// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Bounds of the decoder.
const (
	fewNodes  = 100_000 // values always accepted, aliased ones counted each time
	maxFaults = 1000
)

// decoder reads nodes and collects their faults.
type decoder struct {
	file    string
	faults  Faults
	more    bool                    // whether there were more than maxFaults
	nodes   int                     // read so far
	most    int                     // the most nodes that may be read
	over    bool                    // whether most was exceeded; nothing is read from then on
	limits  map[string]sluice.Limit // by text, as many rules have the same
	later   []func()                // read at the end of a level
	named   map[NamedFile]place
	listens []*yaml.Node // of Config.Listen
	claims  []claim      // in rules without faults; names in certificates, too

	recorded *recorder // nil unless the schema is made

	profiles  []string            // of the current rule
	platforms map[string][]string // profiles of each rule that has any
}

// claim is a use of a token's claim, or of a certificate's name, in a rule.
type claim struct {
	node *yaml.Node
	of   policy.Part
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, limits: make(map[string]sluice.Limit), named: make(map[NamedFile]place), platforms: make(map[string][]string)}
}

// enter resolves an alias and counts the node: aliases of aliases can expand to far more than
// the file's size. The file's size bounds their depth. It returns nil once the bound is
// exceeded.
func (d *decoder) enter(n *yaml.Node) *yaml.Node {
	at := n
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	switch {
	case d.over:
		return nil
	case d.nodes > d.most:
		d.fault(at, "aliases make the file more than %d values long; use fewer", d.most)
		d.over = true // later faults would only follow from this one
		return nil
	}
	return n
}

// field is a key of a mapping with the reader of its value.
type field struct {
	name string
	read func(n *yaml.Node)
}

// mapping reads a mapping, in which each key may occur once.
func (d *decoder) mapping(n *yaml.Node, what string, fields ...field) {
	if n = d.enter(n); n == nil || d.recorded.mapping(n, what, fields) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, "%s is %s; use keys and values: %s", what, kind(n), names(fields))
		return
	}
	var seen [64]*yaml.Node // no mapping has more fields
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
			d.fault(key, "merge keys are not read; repeat the keys")
			continue
		}
		at := fieldAt(fields, key)
		switch {
		case at < 0:
			d.fault(key, "%s has no key %q; use %s", what, shorten(key.Value), suggestion(key.Value, fields))
		case seen[at] != nil:
			d.fault(key, "%q is on line %d already; remove one of them", key.Value, seen[at].Line)
		default:
			seen[at] = key
			fields[at].read(n.Content[i+1])
		}
	}
}

// fieldAt returns the index of the field named by key, or -1.
func fieldAt(fields []field, key *yaml.Node) int {
	if key.Kind != yaml.ScalarNode {
		return -1
	}
	return slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
}

// mappingOr reads a mapping, or calls short for any other node. It reports whether n is a
// mapping.
func (d *decoder) mappingOr(n *yaml.Node, what string, short func(n *yaml.Node), fields ...field) bool {
	m := d.enter(n)
	switch {
	case m == nil:
		return false
	case m.Kind != yaml.MappingNode:
		short(n)
		return false
	}
	d.mapping(n, what, fields...)
	return true
}

// pairs reads a mapping with arbitrary keys.
func (d *decoder) pairs(n *yaml.Node, what string, most int, read func(key, value *yaml.Node)) {
	if n = d.enter(n); n == nil || d.recorded.pairs(n, read) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, "%s is %s; use NAME: VALUE", what, kind(n))
		return
	}
	if len(n.Content)/2 > most {
		d.fault(n, "%s has %d entries; at most %d are accepted", what, len(n.Content)/2, most)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch line, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			d.fault(key, "%s: a name is a list or a mapping; use one word", what)
		case twice:
			d.fault(key, "%q is on line %d already; remove one of them", shorten(key.Value), line)
		default:
			seen[key.Value] = key.Line
			read(key, n.Content[i+1])
		}
	}
}

// list reads the items of a sequence; any other node is a list of one.
func (d *decoder) list(n *yaml.Node, read func(n *yaml.Node)) {
	at := n
	if n = d.enter(n); n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		read(at)
		return
	}
	if d.recorded.items(n, read) {
		return
	}
	if len(n.Content) == 0 {
		d.fault(n, "an empty list; leave the key out, or write something in it")
	}
	for _, item := range n.Content {
		read(item)
	}
}

// text reads a scalar verbatim.
func (d *decoder) text(n *yaml.Node, what string) (string, bool) {
	if n = d.enter(n); n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fault(n, "%s is %s; use one word or text", what, kind(n))
		return "", false
	}
	d.recorded.text(n)
	return n.Value, true
}

// each reads a text or a list of texts.
func (d *decoder) each(n *yaml.Node, what string, read func(n *yaml.Node, s string)) {
	d.list(n, func(n *yaml.Node) {
		if s, ok := d.text(n, what); ok {
			read(n, s)
		}
	})
}

// texts appends a text or a list of texts.
func (d *decoder) texts(n *yaml.Node, what string, into *[]string) {
	if m := resolved(n); *into == nil && m.Kind == yaml.SequenceNode && d.recorded == nil {
		*into = make([]string, 0, min(len(m.Content), 64))
	}
	d.each(n, what, func(_ *yaml.Node, s string) { *into = append(*into, s) })
}

// scalar returns a field with one text.
func (d *decoder) scalar(name string, read func(n *yaml.Node, s string)) field {
	return field{name, func(n *yaml.Node) {
		if s, ok := d.text(n, name); ok {
			read(n, s)
		}
	}}
}

// word returns a field that stores one text, which must not be empty.
func (d *decoder) word(name string, into *string) field {
	return d.scalar(name, func(n *yaml.Node, s string) {
		if s == "" {
			d.fault(n, "%s is empty; leave it out, or write something", name)
		}
		*into = s
	})
}

func (d *decoder) flag(name string, into *bool) field {
	return d.scalar(name, func(n *yaml.Node, s string) {
		d.recorded.flag(n)
		if s != "true" && s != "false" {
			d.fault(n, "%s is %q; use true or false", name, shorten(s))
		}
		*into = s == "true"
	})
}

func (d *decoder) number(name string, least, most int64, into *int64) field {
	return d.scalar(name, func(n *yaml.Node, s string) {
		d.recorded.number(n, least, most)
		v, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
		if err != nil || v < least || v > most {
			d.fault(n, "%s is %q; use a whole number from %d to %d", name, shorten(s), least, most)
			return
		}
		*into = v
	})
}

func (d *decoder) duration(name string, least, most time.Duration, into *time.Duration) field {
	return d.scalar(name, func(n *yaml.Node, s string) {
		d.recorded.duration(n)
		v, err := time.ParseDuration(s)
		if err != nil || v < least || v > most {
			d.fault(n, "%s is %q; use a time from %v to %v with its unit, such as 1m30s", name, shorten(s), least, most)
			return
		}
		*into = v
	})
}

// kind names the kind of a node for error texts.
func kind(n *yaml.Node) string {
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
		return fmt.Sprintf("%q", shorten(n.Value))
	}
}

func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func names(fields []field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return strings.Join(list, ", ")
}

// suggestion returns the field nearest to a misspelt one, or all fields.
func suggestion(word string, fields []field) string {
	if best := nearest(word, fields); best != "" {
		return best
	}
	return "one of " + names(fields)
}
