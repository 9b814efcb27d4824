// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"strings"
)

// directive is a line of the configuration, with its block if it has one.
type directive struct {
	name  string
	args  []string
	line  int
	block []*directive
}

const (
	maxDepth      = 64
	maxDirectives = 500_000
)

// parser reads the configuration as nginx's own does: words end at space, ";",
// "{" or "}"; quotes keep these, a backslash keeps what follows.
type parser struct {
	file  string
	text  string
	pos   int
	line  int
	count int
}

func parse(file, text string) ([]*directive, error) {
	p := &parser{file: file, text: text, line: 1}
	tree, err := p.block(0)
	return tree, err
}

func (p *parser) fail(line int, problem string) error { return &SyntaxError{p.file, line, problem} }

// block reads directives up to the end of the block, or of the text.
func (p *parser) block(depth int) (list []*directive, err error) {
	if depth > maxDepth {
		return nil, p.fail(p.line, "blocks within blocks, too deep to be a configuration")
	}
	opened := p.line
	for {
		p.space()
		switch {
		case p.pos >= len(p.text):
			if depth > 0 {
				return nil, p.fail(opened, "a block is not closed; a } is missing")
			}
			return list, nil
		case p.text[p.pos] == '}':
			if depth == 0 {
				return nil, p.fail(p.line, "a } closes no block")
			}
			p.pos++
			return list, nil
		case p.text[p.pos] == ';':
			p.pos++ // nginx would complain; nothing is lost by reading on
			continue
		}
		if p.count++; p.count > maxDirectives {
			return nil, p.fail(p.line, "too many directives to be a configuration")
		}
		d, err := p.directive(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
}

func (p *parser) directive(depth int) (*directive, error) {
	d := &directive{line: p.line}
	for {
		p.space()
		if p.pos >= len(p.text) {
			return nil, p.fail(d.line, "a directive is not ended; a ; is missing")
		}
		switch p.text[p.pos] {
		case ';':
			p.pos++
			return d, nil
		case '}':
			return nil, p.fail(p.line, "a directive is not ended before the }; a ; is missing")
		case '{':
			p.pos++
			if strings.HasSuffix(d.name, "_by_lua_block") {
				return d, p.skip(d.line)
			}
			var err error
			d.block, err = p.block(depth + 1)
			return d, err
		}
		word, err := p.word()
		if err != nil {
			return nil, err
		}
		if d.name == "" && len(d.args) == 0 {
			d.name = word
		} else {
			d.args = append(d.args, word)
		}
	}
}

// space skips white space and comments.
func (p *parser) space() {
	for ; p.pos < len(p.text); p.pos++ {
		switch p.text[p.pos] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			end := strings.IndexByte(p.text[p.pos:], '\n')
			if end < 0 {
				p.pos = len(p.text)
				return
			}
			p.pos += end - 1
		default:
			return
		}
	}
}

func (p *parser) word() (string, error) {
	if q := p.text[p.pos]; q == '"' || q == '\'' {
		return p.quoted(q)
	}
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';':
			return b.String(), nil
		case c == '{' && strings.HasSuffix(b.String(), "$"):
			end := strings.IndexAny(p.text[p.pos:], "} ;\n")
			if end < 0 || p.text[p.pos+end] != '}' {
				return "", p.fail(p.line, "a variable's name is not closed; a } is missing")
			}
			b.WriteString(p.text[p.pos : p.pos+end+1])
			p.pos += end + 1
			continue
		case c == '{' || c == '}' && b.Len() == 0:
			return b.String(), nil
		case c == '\\' && p.pos+1 < len(p.text):
			p.pos++
			b.WriteByte(c)
			c = p.text[p.pos]
		}
		if c == '\n' {
			p.line++
		}
		b.WriteByte(c)
		p.pos++
	}
	return b.String(), nil
}

func (p *parser) quoted(quote byte) (string, error) {
	opened := p.line
	var b strings.Builder
	for p.pos++; p.pos < len(p.text); p.pos++ {
		c := p.text[p.pos]
		switch {
		case c == quote:
			p.pos++
			return b.String(), nil
		case c == '\\' && p.pos+1 < len(p.text):
			p.pos++
			if c = p.text[p.pos]; c != quote && c != '\\' {
				b.WriteByte('\\')
			}
		}
		if c == '\n' {
			p.line++
		}
		b.WriteByte(c)
	}
	return "", p.fail(opened, "a quote is not closed")
}

// skip passes over a block of another language.
func (p *parser) skip(opened int) error {
	for depth := 1; p.pos < len(p.text); p.pos++ {
		switch p.text[p.pos] {
		case '\n':
			p.line++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				p.pos++
				return nil
			}
		}
	}
	return p.fail(opened, "a block is not closed; a } is missing")
}

func find(list []*directive, name string) *directive {
	for _, d := range list {
		if d.name == name && d.block != nil {
			return d
		}
	}
	return nil
}

// arg returns the i-th argument, "" if there is none.
func (d *directive) arg(i int) string {
	if i < len(d.args) {
		return d.args[i]
	}
	return ""
}

// option returns what stands behind name= among the arguments.
func (d *directive) option(name string) (string, bool) {
	for _, a := range d.args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
