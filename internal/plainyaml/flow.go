// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package plainyaml

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// item reads a flow or a scalar.
func (r *reader) item(flow bool) *yaml.Node {
	switch r.text[r.at] {
	case '[':
		return r.flow(yaml.SequenceNode, "!!seq", ']')
	case '{':
		return r.flow(yaml.MappingNode, "!!map", '}')
	}
	return r.scalar(flow)
}

// flow reads [a, b] or {a: b, c: d}, which may have several lines.
func (r *reader) flow(kind yaml.Kind, tag string, closing byte) *yaml.Node {
	if !r.enter() {
		return nil
	}
	n := r.node(kind, r.at)
	n.Tag, n.Style = tag, yaml.FlowStyle
	from := len(r.stack)
	r.at++
	for {
		if r.token(); r.failed {
			return nil
		}
		if r.text[r.at] == closing {
			r.at++
			return r.content(n, from)
		}
		if kind == yaml.MappingNode && !r.key() {
			return r.fail()
		}
		item := r.item(true)
		if r.failed {
			return nil
		}
		r.stack = append(r.stack, item)
		if r.token(); r.failed {
			return nil
		}
		switch r.text[r.at] {
		case closing:
		case ',':
			if r.at++; !r.blank(r.at) {
				return r.fail() // a space is what people write
			}
		default:
			return r.fail()
		}
	}
}

// key reads the key of a flow mapping and goes to its value, which begins in the same line.
func (r *reader) key() bool {
	key := r.scalar(true)
	if r.failed || !r.colon() || len(key.Value) > maxKey || r.ended() {
		return false
	}
	r.stack = append(r.stack, key)
	return true
}

// token goes to what is next of a flow, in this line or in a later one.
func (r *reader) token() {
	if !r.ended() {
		return
	}
	if r.line(); r.over {
		r.failed = true
	}
}

// scalar reads a word or a quoted text and stands behind it.
func (r *reader) scalar(flow bool) *yaml.Node {
	if r.failed || r.at >= r.end {
		return r.fail()
	}
	n := r.node(yaml.ScalarNode, r.at)
	switch c := r.text[r.at]; c {
	case '\'', '"':
		line := r.text[r.at+1 : r.end]
		length := strings.IndexByte(line, c)
		if length < 0 || c == '"' && strings.IndexByte(line[:length], '\\') >= 0 || length+1 < len(line) && line[length+1] == c {
			return r.fail() // escapes, or a text of several lines
		}
		n.Tag, n.Value, n.Style = "!!str", line[:length], yaml.DoubleQuotedStyle
		if c == '\'' {
			n.Style = yaml.SingleQuotedStyle
		}
		r.at += length + 2
		return n
	case '-':
		if r.blank(r.at + 1) {
			return r.fail()
		}
	default:
		if c < utf8.RuneSelf && !begins[c] {
			return r.fail()
		}
	}
	n.Value = r.word(flow)
	n.Tag = tagOf(n.Value)
	return n
}

// begins are the bytes with which a word may begin. YAML has a few more.
var begins = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._~<=^$+()\\;")

// stops are those at which a word in a flow may end.
var stops = set(",[]{}?")

func set(of string) (in [utf8.RuneSelf]bool) {
	for i := range len(of) {
		in[of[i]] = true
	}
	return in
}

// word reads a text without quotes, up to what ends it in the line.
func (r *reader) word(flow bool) string {
	from, to := r.at, r.at
	for ; r.at < r.end; r.at++ {
		switch c := r.text[r.at]; {
		case c == ' ':
			continue
		case c == ':' && r.blank(r.at+1), c == '#' && r.text[r.at-1] == ' ':
			r.at = to
			return r.text[from:to]
		case flow && c < utf8.RuneSelf && stops[c]:
			r.at = to
			return r.text[from:to]
		}
		to = r.at + 1
	}
	r.at = to
	return r.text[from:to]
}

func tagOf(word string) string {
	switch word {
	case "~", "null", "Null", "NULL":
		return "!!null"
	case "<<":
		return "!!merge"
	}
	return "!!str"
}
