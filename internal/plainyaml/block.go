// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package plainyaml

import "go.yaml.in/yaml/v3"

// dash reports whether the line goes on with an item of a list.
func (r *reader) dash() bool { return r.at < r.end && r.text[r.at] == '-' && r.blank(r.at+1) }

// mapping reads a block mapping whose keys are indented so far. The reader stands behind its
// first key.
func (r *reader) mapping(indent int, key *yaml.Node) *yaml.Node {
	if !r.enter() {
		return nil
	}
	n := r.node(yaml.MappingNode, r.at)
	n.Tag, n.Line, n.Column = "!!map", key.Line, key.Column
	from := len(r.stack)
	for {
		if !r.colon() || len(key.Value) > maxKey {
			return r.fail()
		}
		value := r.value(indent)
		if r.failed {
			return nil
		}
		r.stack = append(r.stack, key, value)
		if r.below(indent) {
			return r.content(n, from)
		}
		if key = r.scalar(false); r.failed {
			return nil
		}
	}
}

// colon reads the one behind a key.
func (r *reader) colon() bool {
	if r.at >= r.end || r.text[r.at] != ':' || !r.blank(r.at+1) {
		return false
	}
	r.at++
	return true
}

// value reads what stands behind a key of a block, up to the next line.
func (r *reader) value(indent int) *yaml.Node {
	if !r.ended() {
		return r.inline()
	}
	switch r.line(); {
	case r.failed || r.over || r.indent < indent:
		return r.fail() // a key without a value
	case r.dash():
		return r.sequence(r.indent, r.indent == indent)
	case r.indent == indent:
		return r.fail() // likewise
	}
	at := r.indent
	key := r.scalar(false)
	if r.failed {
		return nil
	}
	return r.mapping(at, key)
}

// inline reads a flow or a scalar that ends in its line, or a flow that ends in a later
// one.
func (r *reader) inline() *yaml.Node {
	n := r.item(false)
	if !r.failed {
		r.rest()
	}
	return n
}

// sequence reads a block sequence whose dashes are indented so far. If it is flush, it
// ends where a key is indented as far as it.
func (r *reader) sequence(indent int, flush bool) *yaml.Node {
	if !r.enter() {
		return nil
	}
	n := r.node(yaml.SequenceNode, r.at)
	n.Tag = "!!seq"
	from := len(r.stack)
	for {
		r.at++
		if r.ended() {
			return r.fail() // an item that is empty, or begins in a later line
		}
		item := r.entry()
		if r.failed {
			return nil
		}
		r.stack = append(r.stack, item)
		if r.below(indent) || flush && !r.dash() {
			return r.content(n, from)
		}
		if !r.dash() {
			return r.fail()
		}
	}
}

// entry reads an item of a block sequence: a mapping whose first key is behind the dash,
// or what ends in its line.
func (r *reader) entry() *yaml.Node {
	if c := r.text[r.at]; c == '[' || c == '{' {
		return r.inline()
	}
	indent := r.at - r.start
	n := r.scalar(false)
	if !r.failed && r.at < r.end && r.text[r.at] == ':' {
		return r.mapping(indent, n)
	}
	if !r.failed {
		r.rest()
	}
	return n
}
