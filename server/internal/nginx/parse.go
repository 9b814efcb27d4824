// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import "strings"

// directive is a directive of the configuration, with its block if it has one.
type directive struct {
	name  string
	args  []string
	file  string
	line  int
	block []*directive
}

const (
	maxDepth      = 64
	maxDirectives = 500_000
)

const notClosed = "a block is not closed; a } is missing"

// parser reads the configuration as nginx does: words end at space, ";" or "{", unless they
// are quoted or follow a backslash.
type parser struct {
	file  string
	text  string // the unread rest
	line  int
	count int
}

func parse(file, text string) ([]*directive, error) {
	p := &parser{file: file, text: text, line: 1}
	return p.block(0)
}

func (p *parser) fail(line int, problem string) error { return &SyntaxError{p.file, line, problem} }

// take reads the next n bytes.
func (p *parser) take(n int) string {
	taken := p.text[:n]
	p.text = p.text[n:]
	p.line += strings.Count(taken, "\n")
	return taken
}

// space skips white space and comments.
func (p *parser) space() {
	for {
		p.take(len(p.text) - len(strings.TrimLeft(p.text, " \t\r\n")))
		if !strings.HasPrefix(p.text, "#") {
			return
		}
		comment, _, _ := strings.Cut(p.text, "\n")
		p.take(len(comment))
	}
}

// block reads directives up to the end of the block, or of the text.
func (p *parser) block(depth int) (list []*directive, err error) {
	if depth > maxDepth {
		return nil, p.fail(p.line, "blocks within blocks, too deep to be a configuration")
	}
	opened := p.line
	for {
		p.space()
		switch {
		case p.text == "":
			if depth > 0 {
				return nil, p.fail(opened, notClosed)
			}
			return list, nil
		case p.text[0] == '}':
			if depth == 0 {
				return nil, p.fail(p.line, "a } closes no block")
			}
			p.take(1)
			return list, nil
		case p.text[0] == ';':
			p.take(1) // nginx would refuse it; nothing is lost by reading on
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
	d := &directive{file: p.file, line: p.line}
	for named := false; ; named = true {
		p.space()
		if p.text == "" {
			return nil, p.fail(d.line, "a directive is not ended; a ; is missing")
		}
		switch p.text[0] {
		case ';':
			p.take(1)
			return d, nil
		case '}':
			return nil, p.fail(p.line, "a directive is not ended before the }; a ; is missing")
		case '{':
			p.take(1)
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
		if named {
			d.args = append(d.args, word)
		} else {
			d.name = word
		}
	}
}

func (p *parser) word() (string, error) {
	if q := p.text[0]; q == '"' || q == '\'' {
		return p.quoted(q)
	}
	for i := 0; i < len(p.text); i++ {
		switch p.text[i] {
		case ' ', '\t', '\r', '\n', ';':
			return p.take(i), nil
		case '{':
			if !strings.HasSuffix(p.text[:i], "$") {
				return p.take(i), nil
			}
			end := strings.IndexAny(p.text[i:], "} ;\n")
			if end < 0 || p.text[i+end] != '}' {
				p.take(i)
				return "", p.fail(p.line, "a variable's name is not closed; a } is missing")
			}
			i += end
		case '\\':
			i++
		}
	}
	return p.take(len(p.text)), nil
}

func (p *parser) quoted(quote byte) (string, error) {
	for i := 1; i < len(p.text); i++ {
		switch p.text[i] {
		case quote:
			q := string(quote)
			return strings.NewReplacer(`\\`, `\`, `\`+q, q).Replace(p.take(i + 1)[1:i]), nil
		case '\\':
			i++
		}
	}
	return "", p.fail(p.line, "a quote is not closed")
}

// skip skips a block in another language.
func (p *parser) skip(opened int) error {
	depth := 1
	for i := range len(p.text) {
		switch p.text[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			p.take(i + 1)
			return nil
		}
	}
	return p.fail(opened, notClosed)
}

// all returns the directives of a name.
func all(list []*directive, name string) (found []*directive) {
	for _, d := range list {
		if d.name == name {
			found = append(found, d)
		}
	}
	return found
}

// arg returns the i-th argument, or "" if there is none.
func (d *directive) arg(i int) string {
	if i < len(d.args) {
		return d.args[i]
	}
	return ""
}

// option returns the value of the argument name=VALUE.
func (d *directive) option(name string) (string, bool) {
	for _, a := range d.args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
