// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package structured reads Lists of Structured Fields for HTTP (RFC 9651), in the forms that
// rate limit fields use.
package structured

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// Bounds of a List. A field that exceeds them is malformed.
const (
	maxBytes   = 8 << 10
	MaxMembers = 16
	maxParams  = 16 // of each member
)

// Member is a member of a List whose value is a String or a Token.
type Member struct {
	Name   string
	Params []Parameter
}

// Parameter is a parameter of a Member.
type Parameter struct {
	Key  string
	Kind byte   // 'i' Integer, 's' String or Token, 'b' Byte Sequence, 0 any other
	Num  int64  // an Integer
	Text string // of any other kind
}

// Param returns a parameter.
func (m *Member) Param(key string) (Parameter, bool) {
	for _, p := range m.Params {
		if p.Key == key {
			return p, true
		}
	}
	return Parameter{}, false
}

// Integer returns a parameter that is an Integer.
func (m *Member) Integer(key string) (int64, bool) {
	p, ok := m.Param(key)
	return p.Num, ok && p.Kind == 'i'
}

var errMalformed = errors.New("malformed")

// ParseList reads a List from the lines of a field. A single fault voids the whole List, as
// RFC 9651 demands.
func ParseList(lines []string) ([]Member, error) {
	size := 0
	for _, l := range lines {
		if size += len(l) + 2; size > maxBytes {
			return nil, errMalformed
		}
	}
	p := listParser{rest: strings.Trim(strings.Join(lines, ", "), " ")}
	var members []Member
	for p.rest != "" {
		m, ok := p.member()
		if !ok || len(members) == MaxMembers {
			return nil, errMalformed
		}
		members = append(members, m)
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.rest == "" {
			break
		}
		if !p.take(',') {
			return nil, errMalformed
		}
		if p.rest = strings.TrimLeft(p.rest, " \t"); p.rest == "" {
			return nil, errMalformed // a comma at the end
		}
	}
	return members, nil
}

// listParser parses rest and removes the parsed prefix.
type listParser struct{ rest string }

func (p *listParser) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *listParser) take(c byte) bool {
	if p.peek() != c || p.rest == "" {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// while removes and returns the longest prefix whose bytes all fit.
func (p *listParser) while(fits func(byte) bool) string {
	i := 0
	for i < len(p.rest) && fits(p.rest[i]) {
		i++
	}
	s := p.rest[:i]
	p.rest = p.rest[i:]
	return s
}

func (p *listParser) member() (m Member, ok bool) {
	v, ok := p.bare()
	if !ok || v.Kind != 's' {
		return m, false
	}
	m.Name = v.Text
	for p.take(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		if c := p.peek(); !lower(c) && c != '*' {
			return m, false
		}
		key := p.while(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
		var v Parameter // true, if there is no value
		if p.take('=') {
			if v, ok = p.bare(); !ok {
				return m, false
			}
		}
		v.Key = key
		if !m.set(v) {
			return m, false
		}
	}
	return m, true
}

// set adds a parameter; the last one of a name counts.
func (m *Member) set(v Parameter) bool {
	for i := range m.Params {
		if m.Params[i].Key == v.Key {
			m.Params[i] = v
			return true
		}
	}
	m.Params = append(m.Params, v)
	return len(m.Params) <= maxParams
}

// bare reads an Item without parameters.
func (p *listParser) bare() (Parameter, bool) {
	switch c := p.peek(); {
	case c == '"':
		return p.str()
	case c == '-' || digit(c):
		return p.number()
	case c == '*' || lower(c) || c >= 'A' && c <= 'Z':
		return Parameter{Kind: 's', Text: p.while(tokenByte)}, true
	case c == ':':
		return p.byteSequence()
	case c == '?':
		p.rest = p.rest[1:]
		return Parameter{}, p.take('0') || p.take('1')
	case c == '@':
		p.rest = p.rest[1:]
		v, ok := p.number()
		return Parameter{}, ok && v.Kind == 'i'
	case c == '%':
		return p.displayString()
	}
	return Parameter{}, false
}

func (p *listParser) str() (Parameter, bool) {
	p.rest = p.rest[1:]
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return Parameter{Kind: 's', Text: b.String()}, true
		case c == '\\':
			if c = p.peek(); c != '"' && c != '\\' {
				return Parameter{}, false
			}
			p.rest = p.rest[1:]
		case c < ' ' || c > '~':
			return Parameter{}, false
		}
		b.WriteByte(c)
	}
	return Parameter{}, false
}

// number reads an Integer of up to 15 digits or a Decimal of up to 12 and 3.
func (p *listParser) number() (Parameter, bool) {
	minus := p.take('-')
	whole := p.while(digit)
	if whole == "" || len(whole) > 15 {
		return Parameter{}, false
	}
	if p.take('.') {
		frac := p.while(digit)
		return Parameter{}, len(whole) <= 12 && len(frac) >= 1 && len(frac) <= 3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if minus {
		n = -n
	}
	return Parameter{Kind: 'i', Num: n}, err == nil
}

func (p *listParser) byteSequence() (Parameter, bool) {
	text, rest, ok := strings.Cut(p.rest[1:], ":")
	if !ok || strings.ContainsAny(text, "\r\n") {
		return Parameter{}, false
	}
	p.rest = rest
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil { // padding may be left out
		b, err = base64.RawStdEncoding.DecodeString(text)
	}
	return Parameter{Kind: 'b', Text: string(b)}, err == nil
}

// displayString skips a Display String: %"…" with %hh for bytes other than printable ASCII.
func (p *listParser) displayString() (Parameter, bool) {
	if p.rest = p.rest[1:]; !p.take('"') {
		return Parameter{}, false
	}
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return Parameter{}, strings.ToValidUTF8(b.String(), "") == b.String()
		case c == '%':
			if len(p.rest) < 2 || strings.ToLower(p.rest[:2]) != p.rest[:2] {
				return Parameter{}, false
			}
			n, err := strconv.ParseUint(p.rest[:2], 16, 8)
			if err != nil {
				return Parameter{}, false
			}
			c = byte(n)
			p.rest = p.rest[2:]
		case c < ' ' || c > '~':
			return Parameter{}, false
		}
		b.WriteByte(c)
	}
	return Parameter{}, false
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }

// tokenByte reports whether c may occur in a Token.
func tokenByte(c byte) bool {
	return lower(c) || digit(c) || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
