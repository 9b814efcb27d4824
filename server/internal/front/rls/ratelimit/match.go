// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"bytes"
	"strings"

	"github.com/sluicegate/sluice/policy"
)

// Entry is an entry of a descriptor, as the protocol has it.
type Entry interface {
	GetKey() string
	GetValue() string
}

// Match is the limit of a descriptor.
type Match struct {
	*Limit // nil: the descriptor has none
	// Shared holds, by the index of an entry, the pattern that stands for its value in the key,
	// so that all values of the pattern share a budget. It is empty for other entries, and nil
	// if there is no such entry.
	Shared []string
}

// Has reports whether there is a domain.
func (c *Config) Has(domain string) bool { return c.domains[domain] != nil }

// Domains returns the number of domains.
func (c *Config) Domains() int { return len(c.domains) }

// HostOf returns a domain as the host of rules: a hyphen stands for each character that a host
// does not have.
func HostOf(domain string) string {
	return policy.HostOf(strings.Map(func(c rune) rune {
		if c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' {
			return c
		}
		return '-'
	}, domain))
}

// Find returns the limit of a descriptor. Each entry leads one level down: to the descriptor of
// its key and value, else to the first in the file whose pattern matches, else to that of its
// key alone. The limit is that of the last entry.
func Find[E Entry](c *Config, domain string, entries []E) (m Match) {
	at := c.domains[domain]
	for i := range entries {
		if at == nil {
			return Match{}
		}
		key := entries[i].GetKey()
		next, by := at.next(key, entries[i].GetValue())
		if by == byPattern && next.share {
			if m.Shared == nil {
				m.Shared = make([]string, len(entries))
			}
			m.Shared[i] = valueOf(next.key, key)
		}
		at = next
	}
	if at == nil || at.limit == nil {
		return Match{}
	}
	m.Limit = at.limit
	return m
}

// valueOf returns the value's part of a descriptor's composite key.
func valueOf(composite, key string) string {
	if len(composite) > len(key) && composite[len(key)] == '_' && composite[:len(key)] == key {
		return composite[len(key)+1:]
	}
	return composite
}

// node is a descriptor of a file, or a domain.
type node struct {
	key       string // its key, with an underscore and the value if it has one
	name      string // its key alone
	value     string
	limit     *Limit // nil: none
	children  map[string]*node
	wildcards []*node // those of the children that are patterns, as in the file
	pattern   [][]byte
	// share makes all values of the pattern share a budget.
	share bool
	// valueToMetric and detailed are about the name of the statistics.
	valueToMetric, detailed bool
}

// how is the way in which an entry has led to a descriptor.
type how uint8

const (
	byNone how = iota
	byValue
	byPattern
	byKey
)

// next returns the descriptor to which an entry leads, or nil.
func (n *node) next(key, value string) (*node, how) {
	if len(n.children) == 0 {
		return nil, byNone
	}
	var room [128]byte
	both := append(append(append(room[:0], key...), '_'), value...)
	if child := n.children[string(both)]; child != nil {
		return child, byValue
	}
	for _, child := range n.wildcards {
		if matches(child.pattern, both) {
			return child, byPattern
		}
	}
	if child := n.children[key]; child != nil {
		return child, byKey
	}
	return nil, byNone
}

// add adds a child. It reports false if there is one of that key.
func (n *node) add(child *node) bool {
	if n.children == nil {
		n.children = make(map[string]*node)
	}
	if n.children[child.key] != nil {
		return false
	}
	n.children[child.key] = child
	if strings.Contains(child.key, "*") {
		child.pattern = bytes.Split([]byte(child.key), []byte{'*'})
		n.wildcards = append(n.wildcards, child)
	}
	return true
}

// matches reports whether a text has the parts of a pattern in their order, the first at its
// beginning and the last at its end.
func matches(parts [][]byte, text []byte) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := bytes.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// each passes the limits of a descriptor and of all below it to yield, until that returns false.
func (n *node) each(yield func(*Limit) bool) bool {
	if n.limit != nil && !yield(n.limit) {
		return false
	}
	for _, child := range n.children {
		if !child.each(yield) {
			return false
		}
	}
	return true
}
