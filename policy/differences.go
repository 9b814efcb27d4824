// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// mostNamed is the number of list values that a difference names, and mostShown the number
// of bytes that it shows of the request's value.
const (
	mostNamed = 4
	mostShown = 256
)

// Differences describes the reasons why the i-th rule of the policy does not match the
// request, such as "method: POST is not GET". They hold no value of a header or a query.
// exempt says that the rule matches or would match, and exempts the client's network.
func (m *Matches) Differences(i int) (list []string, exempt bool) {
	r, a := &m.of.rules[i], m.found.attributes
	add := func(part, format string, args ...any) {
		list = append(list, part+": "+fmt.Sprintf(format, args...))
	}
	if !m.foundBy(&rule{Rule: &Rule{Match: Match{Hosts: r.Match.Hosts}}}) {
		add("host", "%s is %s", brief(a.Host()), noneOf(r.Match.Hosts))
	}
	if !m.foundBy(&rule{Rule: &Rule{}, patterns: r.patterns}) {
		add("path", "%s is %s", brief(a.Path()), noneOf(r.Match.Paths))
	}
	switch d := r.differs(a, m.found.client); d.part {
	case partMethod:
		add("method", "%s is %s", brief(a.Method()), noneOf(r.Match.Methods))
	case partHeader:
		add("header "+r.Match.Headers[d.i].Name, "%s", r.Match.Headers[d.i].lacks())
	case partQuery:
		add("query "+r.Match.Queries[d.i].Name, "%s", r.Match.Queries[d.i].lacks())
	case partDescriptor:
		switch n := len(r.Match.Descriptor); {
		case d.i < 0:
			add("descriptor", "its entries are other than those of the rule")
		case d.i < n:
			add("descriptor "+r.Match.Descriptor[d.i].Name, "%s", r.Match.Descriptor[d.i].lacks())
		default:
			add("descriptor "+r.Match.ExceptDescriptor[d.i-n].Name, "is excepted")
		}
	case partNetwork:
		var names []string
		for _, n := range r.Match.Networks {
			names = append(names, n.String())
		}
		client := "a client without an address"
		if m.found.client.IsValid() {
			client = m.found.client.String()
		}
		add("network", "%s is not in %s", client, strings.Join(shortened(names), ", "))
	case partNone:
		if len(list) == 0 {
			add("path", "%s is excepted by %s", brief(a.Path()), strings.Join(shortened(r.Match.Except), ", "))
		}
	}
	return list, within(r.ExemptNetworks, m.found.client)
}

// foundBy reports whether the index finds the request by the given part of a rule alone.
func (m *Matches) foundBy(only *rule) bool {
	var x index
	x.add(0, only)
	for i := range m.path.n {
		s := search{attributes: m.found.attributes, path: &m.path.paths[i], client: m.found.client}
		if x.find(&s); len(s.found) > 0 {
			return true
		}
	}
	return false
}

func (f *Field) lacks() string {
	switch {
	case f.Absent:
		return "must be absent"
	case len(f.Values) == 0:
		return "is not there, or empty"
	default:
		return "is " + noneOf(f.Values)
	}
}

// noneOf returns a text saying that a value is none of a list.
func noneOf(list []string) string {
	if len(list) == 1 {
		return "not " + list[0]
	}
	return "none of " + strings.Join(shortened(list), ", ")
}

// brief returns s, or its beginning.
func brief(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:mostShown], ""), len(s))
}

func shortened(list []string) []string {
	if len(list) <= mostNamed {
		return list
	}
	return append(list[:mostNamed:mostNamed], fmt.Sprintf("and %d more", len(list)-mostNamed))
}
