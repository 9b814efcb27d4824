// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Policy is a compiled list of rules. It does not change and is safe for concurrent use.
type Policy struct {
	list  []Rule
	rules []rule
	names map[string]int
	index *index
}

// Rules returns the rules as compiled. They must not be changed, nor values that they point to;
// a copy of the slice may be.
func (p *Policy) Rules() []Rule { return p.list }

// Example returns a request that the i-th rule matches. Other rules may match it, too.
func (p *Policy) Example(i int) *Request {
	request := newExample()
	p.rules[i].fillExample(request)
	return request
}

// Levels returns the levels of the i-th rule as compiled.
func (p *Policy) Levels(i int) []CompiledLevel { return p.rules[i].levels }

// Matches are the rules that match a request. The zero Matches is ready to use. A used
// Matches may be used again and keeps its memory. It belongs to one goroutine at a time.
type Matches struct {
	path  reader
	found search
	hits  []hit // one for each rule; in room, or those of the index if each rule matches all
	room  []hit
	all   []hit // one for each rule and reading of the path, if there are several
	of    *Policy

	values []string // of the parts of a key
}

// hit is a rule that matches, with its pattern and the reading of the path.
type hit struct {
	ref
	reading int32
}

// Len returns the number of rules that matched.
func (m *Matches) Len() int { return len(m.hits) }

// At returns the index in the policy of the i-th rule that matched.
func (m *Matches) At(i int) int { return int(m.hits[i].rule) }

// Match finds all rules that match a. Exemptions by network are not applied: [Matches.Key]
// applies them. It takes about a microsecond, however many rules
// there are, and allocates only for an unclean path or when m grows.
func (p *Policy) Match(a Attributes, m *Matches) {
	m.all = m.all[:0]
	m.found.attributes = a
	m.found.from(a.Client())
	if m.of != p {
		m.of, m.hits = p, p.index.every
	}
	if len(p.index.every) == len(p.rules) {
		return
	}
	m.room = append(m.room[:0], p.index.every...)
	if p.index.paths {
		m.path.set(a.Path())
	} else {
		m.path.n, m.path.paths[0].ok = 1, false // no rule needs the path
	}
	for i := range m.path.n {
		m.found.path, m.found.found = &m.path.paths[i], m.found.found[:0]
		p.index.find(&m.found)
		for _, at := range m.found.found {
			if r := &p.rules[at.rule]; r.bare || r.matches(a, m.found.client) && !r.excepts(m.found.path) {
				m.room = append(m.room, hit{at, int32(i)})
			}
		}
	}
	if m.hits = m.room; len(m.hits) < 2 {
		return
	}
	// A rule with several hosts or paths may have been found twice.
	slices.SortFunc(m.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.reading, b.reading), cmp.Compare(a.pattern, b.pattern))
	})
	if m.path.n > 1 {
		m.all = append(m.all, m.hits...)
	}
	m.hits = slices.CompactFunc(m.hits, func(a, b hit) bool { return a.rule == b.rule })
}

// wildcard returns the value of a wildcard in a rule's pattern. ok is false if the value
// depends on how the path is read.
func (m *Matches) wildcard(r *rule, name string, by hit) (value string, ok bool) {
	stands := func(h hit) string {
		pat := &r.patterns[h.pattern]
		return m.path.paths[h.reading].value(pat, pat.find(name))
	}
	value = stands(by)
	reading := by.reading
	for _, h := range m.all {
		if h.rule == by.rule && h.reading != reading {
			if reading = h.reading; stands(h) != value {
				return "", false
			}
		}
	}
	return value, true
}

// matches checks the conditions that the index does not: all but host and path.
func (r *rule) matches(a Attributes, client netip.Addr) bool {
	return r.differs(a, client).part == partNone
}

// difference is a condition of a rule's Match that a request does not meet; i is the index
// of a header, a query or an entry of a descriptor, as describes returns it.
type difference struct {
	part matchPart
	i    int
}

type matchPart uint8

const (
	partNone matchPart = iota
	partMethod
	partHeader
	partQuery
	partDescriptor
	partNetwork
)

// differs returns the first difference in the conditions that the index does not check.
func (r *rule) differs(a Attributes, client netip.Addr) difference {
	m := &r.Match
	if len(m.Methods) > 0 {
		method := a.Method()
		if !slices.Contains(m.Methods, method) && (method != "HEAD" || !slices.Contains(m.Methods, "GET")) {
			return difference{part: partMethod}
		}
	}
	for i := range m.Headers {
		if !m.Headers[i].holds(a.Header(m.Headers[i].Name)) {
			return difference{partHeader, i}
		}
	}
	for i := range m.Queries {
		if values, err := a.Query(m.Queries[i].Name); err == nil && !m.Queries[i].holds(values) {
			return difference{partQuery, i} // with an error, it may hold for some server
		}
	}
	if len(m.Descriptor)+len(m.ExceptDescriptor) > 0 {
		if i, ok := m.describes(a); !ok {
			return difference{partDescriptor, i}
		}
	}
	if len(m.Networks) > 0 && !within(m.Networks, client) {
		return difference{part: partNetwork}
	}
	return difference{}
}

func (r *rule) excepts(at *path) bool {
	for i := range r.except {
		if r.except[i].matches(at) {
			return true
		}
	}
	return false
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// RuleOf returns the index of the rule of a plan's Scope, which is the rule's name, followed by
// a slash and the level's name, and by a plus and the candidate's name. It gives a plan its
// failure policy and its name in metrics.
func (p *Policy) RuleOf(scope string) (i int, ok bool) {
	if end := strings.IndexAny(scope, "/+"); end >= 0 {
		scope = scope[:end]
	}
	i, ok = p.names[scope]
	return i, ok
}
