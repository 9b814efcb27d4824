// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/source"
)

// Descriptor is the value of an entry of Envoy's descriptor, by the entry's key.
//
// Only attributes with a method Descriptor(key string) (values []string, entries int) have the
// part, such as those of a [Request]. It returns the values of the entries with that key, and the
// number of all entries.
func Descriptor(key string) Part { return Part{Source: source.Descriptor, Name: key} }

// described are Attributes with a descriptor.
type described interface {
	Descriptor(key string) (values []string, entries int)
}

// describes checks the conditions on a descriptor. It returns false, with the index of an entry
// that differs, or with -1 if the number of entries does.
func (m *Match) describes(a Attributes) (i int, ok bool) {
	d, ok := a.(described)
	if !ok {
		return -1, false
	}
	if _, entries := d.Descriptor(""); entries == 0 || len(m.Descriptor) > 0 && entries != len(m.Descriptor) {
		return -1, false
	}
	for i := range m.Descriptor {
		f := &m.Descriptor[i]
		if values, _ := d.Descriptor(f.Name); !f.holdsPattern(values) {
			return i, false
		}
	}
	for i := range m.ExceptDescriptor {
		f := &m.ExceptDescriptor[i]
		if values, _ := d.Descriptor(f.Name); f.holdsPattern(values) {
			return len(m.Descriptor) + i, false
		}
	}
	return 0, true
}

// holdsPattern is holds for values in which a star is any text.
func (f *Field) holdsPattern(have []string) bool {
	return f.holds(have) || slices.ContainsFunc(have, func(v string) bool {
		return slices.ContainsFunc(f.Values, func(pattern string) bool { return hasPattern(v, pattern) })
	})
}

// isPattern reports whether a value of an entry has a star.
func isPattern(value string) bool { return strings.Contains(value, "*") }

// hasPattern reports whether a text has a pattern, in which each star is any text.
func hasPattern(text, pattern string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star || !strings.HasPrefix(text, first) {
		return false
	}
	for text = text[len(first):]; ; {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], more
	}
}

// descriptor checks the conditions on a descriptor.
func (c *compiler) descriptor(m *Match) {
	m.Descriptor = c.fields(in("Match", "Descriptor"), m.Descriptor, false)
	m.ExceptDescriptor = c.fields(in("Match", "ExceptDescriptor"), m.ExceptDescriptor, false)
	for i, f := range m.Descriptor {
		if f.Absent {
			c.fault(in("Match", "Descriptor").item(i), "%s: a descriptor of the rule has no entries but those that it names; leave it out", f.Name)
		}
	}
	for i, f := range m.ExceptDescriptor {
		if len(m.Descriptor) > 0 && !m.names(f.Name) {
			c.fault(in("Match", "ExceptDescriptor").item(i), "%s: no descriptor of the rule has this entry; leave it out, or name it in descriptor, too", f.Name)
		}
	}
}

// names reports whether the descriptors of the rule have an entry.
func (m *Match) names(key string) bool {
	return slices.ContainsFunc(m.Descriptor, func(f Field) bool { return f.Name == key })
}

// refusing finds a part of a key for lack of which most descriptors would be refused.
func (c *compiler) refusing(r *rule, at place, p Part, missing Missing) {
	if p.Source == source.Descriptor && len(r.Match.Descriptor) == 0 && missing == Refuse {
		c.fault(at, "descriptors without the entry %s would be refused; use match: {descriptor: {%s: \"*\"}}, or missing: skip", p.Name, p.Name)
	}
}
