// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package plainyaml reads the YAML that most configurations are written in: blocks by
// indentation, flows, words, quoted texts on one line, comments. It makes the nodes that
// go.yaml.in/yaml/v3 makes, in a tenth of the time and half of the memory. Of a text
// that has anything else, such as an anchor, a tag or a fault, it reads nothing, and that
// package reads all of it.
package plainyaml

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 100
	maxKey   = 1000 // bytes; YAML has a bound of 1024
	stretch  = 512  // bytes between two pauses, and a line
)

// Read returns the root of a text that is one document, a block mapping, with these
// fields of every node set as yaml.v3 sets them: Kind, Style, Value, Line, Column and
// Content. Tag is !!null or !!merge where it is there; of other scalars !!str. It is not
// ok if the text has something else than what this package reads; then nothing is known
// of it. Pause is called after every few lines. The nodes keep the text.
func Read(text string, pause func()) (root *yaml.Node, ok bool) {
	r := &reader{text: text, pause: pause}
	if r.line(); r.failed || r.over || r.indent != 0 {
		return nil, false
	}
	if key := r.scalar(false); !r.failed {
		root = r.mapping(0, key)
	}
	return root, !r.failed
}

// reader reads one text. After failed nothing that it returns counts.
type reader struct {
	text   string
	pause  func()
	paused int // where it was called last

	start, at, end int // of the line at hand: its first byte, the next to be read, its end
	next           int // first byte of the line after it
	number         int // from 1
	indent         int // spaces before its content
	wide           bool

	over   bool // there is no line
	failed bool
	depth  int

	nodes []yaml.Node  // where the next ones are made
	links []*yaml.Node // likewise their lists
	stack []*yaml.Node // of lists that have not ended
}

// fail ends the reading.
func (r *reader) fail() *yaml.Node {
	r.failed = true
	return nil
}

// line goes to the next line that has content.
func (r *reader) line() {
	for r.next < len(r.text) {
		if r.next-r.paused > stretch {
			r.paused = r.next
			r.pause()
		}
		r.start, r.number = r.next, r.number+1
		if n := strings.IndexByte(r.text[r.start:], '\n'); n >= 0 {
			r.end = r.start + n
		} else {
			r.end = len(r.text)
		}
		r.next = min(r.end+1, len(r.text))
		line := r.text[r.start:r.end]
		if !r.readable(line) {
			r.failed = true
			return
		}
		r.at = r.start
		r.spaces()
		if r.at < r.end && r.text[r.at] != '#' {
			r.indent = r.at - r.start
			return
		}
	}
	r.over = true
}

// readable reports whether a line has no character that ends lines, is not allowed or
// begins a directive or a document.
func (r *reader) readable(line string) bool {
	r.wide = false
	for i := range len(line) {
		switch c := line[i]; {
		case c < ' ' || c == 0x7f:
			return false
		case c >= utf8.RuneSelf:
			r.wide = true
		}
	}
	if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") || strings.HasPrefix(line, "%") {
		return false
	}
	return !r.wide || utf8.ValidString(line) && !strings.ContainsFunc(line, func(c rune) bool {
		return 0x7f <= c && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff
	})
}

func (r *reader) spaces() {
	for r.at < r.end && r.text[r.at] == ' ' {
		r.at++
	}
}

// blank reports whether at i there is a space, or the line ends.
func (r *reader) blank(i int) bool { return i >= r.end || r.text[i] == ' ' }

// rest goes to the next line, if nothing but a comment is left of this one.
func (r *reader) rest() {
	if !r.ended() {
		r.failed = true
		return
	}
	r.line()
}

// ended reports whether nothing but a comment is left of the line.
func (r *reader) ended() bool {
	from := r.at
	r.spaces()
	return r.at == r.end || r.text[r.at] == '#' && r.at > from
}

// below reports whether the block with an indentation has ended. A line that is indented more belongs
// to no block here: it continues a text.
func (r *reader) below(indent int) bool {
	if !r.over && r.indent > indent {
		r.failed = true
	}
	return r.failed || r.over || r.indent < indent
}

// node makes one that begins at an offset of the line.
func (r *reader) node(kind yaml.Kind, at int) *yaml.Node {
	if len(r.nodes) == cap(r.nodes) {
		r.nodes = make([]yaml.Node, 0, min(max(16, 2*cap(r.nodes)), 512))
	}
	r.nodes = r.nodes[:len(r.nodes)+1]
	n := &r.nodes[len(r.nodes)-1]
	n.Kind, n.Line, n.Column = kind, r.number, at-r.start+1
	if r.wide {
		n.Column = utf8.RuneCountInString(r.text[r.start:at]) + 1
	}
	return n
}

// content gives n what is on the stack from an index on, and leaves n.
func (r *reader) content(n *yaml.Node, from int) *yaml.Node {
	r.depth--
	list := r.stack[from:]
	if len(r.links)+len(list) > cap(r.links) {
		r.links = make([]*yaml.Node, 0, max(min(max(16, 2*cap(r.links)), 1024), len(list)))
	}
	first := len(r.links)
	r.links = append(r.links, list...)
	n.Content = r.links[first:len(r.links):len(r.links)]
	r.stack = r.stack[:from]
	return n
}

// enter counts how deep lies what is read next. It reports whether that is not too deep.
func (r *reader) enter() bool {
	if r.depth++; r.depth > maxDepth {
		r.failed = true
	}
	return !r.failed
}
