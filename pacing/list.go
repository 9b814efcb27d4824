// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// member is a member of a List of Structured Fields (RFC 9651) whose value is
// a String or a Token, with the parameters that matter here.
type member struct {
	name   string
	params []parameter
}

type parameter struct {
	key  string
	kind byte // 'i' Integer, 's' String or Token, 'b' Byte Sequence, 0 any other
	num  int64
	text string
}

func (m *member) param(key string) (parameter, bool) {
	for _, p := range m.params {
		if p.key == key {
			return p, true
		}
	}
	return parameter{}, false
}

func (m *member) integer(key string) (int64, bool) {
	p, ok := m.param(key)
	return p.num, ok && p.kind == 'i'
}

// identity returns the name and the partition key, which may hold any bytes and is empty if
// there is none.
func (m *member) identity() identity {
	if p, ok := m.param("pk"); ok && p.kind == 'b' {
		return identity{m.name, p.text}
	}
	return identity{Name: m.name}
}

// requests reports whether m counts requests, as it does without a unit. The draft spells the
// unit in two ways.
func (m *member) requests() bool {
	p, ok := m.param("qu")
	return !ok || p.kind == 's' && (p.text == "requests" || p.text == "request")
}

var errMalformed = errors.New("malformed")

// parseList reads a List from the lines of a field. A single fault voids the whole List, as
// RFC 9651 demands.
func parseList(lines []string) ([]member, error) {
	size := 0
	for _, l := range lines {
		if size += len(l) + 2; size > maxFieldBytes {
			return nil, errMalformed
		}
	}
	p := listParser{rest: strings.Trim(strings.Join(lines, ", "), " ")}
	var members []member
	for p.rest != "" {
		m, ok := p.member()
		if !ok || len(members) == maxItems {
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

func (p *listParser) member() (m member, ok bool) {
	v, ok := p.bare()
	if !ok || v.kind != 's' {
		return m, false
	}
	m.name = v.text
	for p.take(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		if c := p.peek(); !lower(c) && c != '*' {
			return m, false
		}
		key := p.while(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
		var v parameter // true, if there is no value
		if p.take('=') {
			if v, ok = p.bare(); !ok {
				return m, false
			}
		}
		v.key = key
		if !m.set(v) {
			return m, false
		}
	}
	return m, true
}

// set adds a parameter; the last one of a name counts.
func (m *member) set(v parameter) bool {
	for i := range m.params {
		if m.params[i].key == v.key {
			m.params[i] = v
			return true
		}
	}
	m.params = append(m.params, v)
	return len(m.params) <= maxParams
}

// bare reads an Item without parameters.
func (p *listParser) bare() (parameter, bool) {
	switch c := p.peek(); {
	case c == '"':
		return p.str()
	case c == '-' || digit(c):
		return p.number()
	case c == '*' || lower(c) || c >= 'A' && c <= 'Z':
		return parameter{kind: 's', text: p.while(tokenByte)}, true
	case c == ':':
		return p.byteSequence()
	case c == '?':
		p.rest = p.rest[1:]
		return parameter{}, p.take('0') || p.take('1')
	case c == '@':
		p.rest = p.rest[1:]
		v, ok := p.number()
		return parameter{}, ok && v.kind == 'i'
	case c == '%':
		return p.displayString()
	}
	return parameter{}, false
}

func (p *listParser) str() (parameter, bool) {
	p.rest = p.rest[1:]
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return parameter{kind: 's', text: b.String()}, true
		case c == '\\':
			if c = p.peek(); c != '"' && c != '\\' {
				return parameter{}, false
			}
			p.rest = p.rest[1:]
		case c < ' ' || c > '~':
			return parameter{}, false
		}
		b.WriteByte(c)
	}
	return parameter{}, false
}

// number reads an Integer of up to 15 digits or a Decimal of up to 12 and 3.
func (p *listParser) number() (parameter, bool) {
	minus := p.take('-')
	whole := p.while(digit)
	if whole == "" || len(whole) > 15 {
		return parameter{}, false
	}
	if p.take('.') {
		frac := p.while(digit)
		return parameter{}, len(whole) <= 12 && len(frac) >= 1 && len(frac) <= 3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if minus {
		n = -n
	}
	return parameter{kind: 'i', num: n}, err == nil
}

func (p *listParser) byteSequence() (parameter, bool) {
	text, rest, ok := strings.Cut(p.rest[1:], ":")
	if !ok || strings.ContainsAny(text, "\r\n") {
		return parameter{}, false
	}
	p.rest = rest
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil { // padding may be left out
		b, err = base64.RawStdEncoding.DecodeString(text)
	}
	return parameter{kind: 'b', text: string(b)}, err == nil
}

// displayString skips a Display String: %"…" with %hh for bytes other than printable ASCII.
func (p *listParser) displayString() (parameter, bool) {
	if p.rest = p.rest[1:]; !p.take('"') {
		return parameter{}, false
	}
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return parameter{}, strings.ToValidUTF8(b.String(), "") == b.String()
		case c == '%':
			if len(p.rest) < 2 || strings.ToLower(p.rest[:2]) != p.rest[:2] {
				return parameter{}, false
			}
			n, err := strconv.ParseUint(p.rest[:2], 16, 8)
			if err != nil {
				return parameter{}, false
			}
			c = byte(n)
			p.rest = p.rest[2:]
		case c < ' ' || c > '~':
			return parameter{}, false
		}
		b.WriteByte(c)
	}
	return parameter{}, false
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }

// tokenByte reports whether c may occur in a Token.
func tokenByte(c byte) bool {
	return lower(c) || digit(c) || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
