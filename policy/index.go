// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
)

// index finds the rules that may match a request: by host, then by path, segment by segment,
// then by the field or network that distinguishes the rules of one path. Its results are
// checked against the rule; rules that it leaves out cannot match.
type index struct {
	every []hit // rules that match every request
	any   tree
	hosts map[string]*tree // exact hosts
	below map[string]*tree // of "*.example.com", under "example.com"
	paths bool             // a rule has a pattern, so paths must be parsed
}

// tree holds the rules of one host.
type tree struct {
	root node
	any  group // rules for every path
}

type node struct {
	literal map[string]*node
	wild    *node
	ends    [endBelow + 1]*group // nil where no pattern ends
}

// ref is a rule with the pattern under which it is filed.
type ref struct{ rule, pattern int32 }

// group holds the rules with the same host and path. A rule is filed under its first field
// with values, or under its networks, so that a thousand rules that differ in these alone
// are not tried one by one.
type group struct {
	plain    []ref
	fields   []fieldGroup
	networks map[netip.Prefix][]ref
	lengths  [2][]int // of the prefixes among networks, of IPv4 and IPv6
}

type fieldGroup struct {
	name   string
	of     int // the kind of the field
	values map[string][]ref
}

// The kinds of fields.
const (
	ofHeaders = iota
	ofQueries
	ofDescriptor
)

func (x *index) add(number int32, r *rule) {
	if r.bare && len(r.Match.Hosts)+len(r.patterns) == 0 {
		x.every = append(x.every, hit{ref: ref{number, -1}})
		return
	}
	x.paths = x.paths || len(r.patterns)+len(r.except) > 0
	trees := []*tree{&x.any}
	if len(r.Match.Hosts) > 0 {
		trees = trees[:0]
		for _, h := range r.Match.Hosts {
			in := &x.hosts
			if base, ok := strings.CutPrefix(h, "*."); ok {
				h, in = base, &x.below
			}
			if *in == nil {
				*in = map[string]*tree{}
			}
			t := (*in)[h]
			if t == nil {
				t = &tree{}
				(*in)[h] = t
			}
			trees = append(trees, t)
		}
	}
	for _, t := range trees {
		if len(r.patterns) == 0 {
			t.any.add(ref{number, -1}, r)
		}
		for i := range r.patterns {
			t.root.add(ref{number, int32(i)}, &r.patterns[i], r)
		}
	}
}

func (n *node) add(at ref, p *pattern, r *rule) {
	for _, s := range p.segments {
		next := n.wild
		if s.wildcard == "" {
			next = n.literal[s.literal]
		}
		if next == nil {
			next = &node{}
			if s.wildcard != "" {
				n.wild = next
			} else {
				if n.literal == nil {
					n.literal = map[string]*node{}
				}
				n.literal[s.literal] = next
			}
		}
		n = next
	}
	if n.ends[p.end] == nil {
		n.ends[p.end] = &group{}
	}
	n.ends[p.end].add(at, r)
}

func (g *group) add(at ref, r *rule) {
	for i, fields := range [...][]Field{ofHeaders: r.Match.Headers, ofQueries: r.Match.Queries, ofDescriptor: r.Match.Descriptor} {
		for _, f := range fields {
			if len(f.Values) > 0 && !(i == ofDescriptor && slices.ContainsFunc(f.Values, isPattern)) {
				g.field(f.Name, i).add(at, f.Values)
				return
			}
		}
	}
	if len(r.Match.Networks) == 0 {
		g.plain = append(g.plain, at)
		return
	}
	if g.networks == nil {
		g.networks = map[netip.Prefix][]ref{}
	}
	for _, p := range r.Match.Networks {
		g.networks[p] = append(g.networks[p], at)
		lengths := &g.lengths[0]
		if p.Addr().Is6() {
			lengths = &g.lengths[1]
		}
		if !slices.Contains(*lengths, p.Bits()) {
			*lengths = append(*lengths, p.Bits())
		}
	}
}

func (g *group) field(name string, of int) *fieldGroup {
	for i := range g.fields {
		if f := &g.fields[i]; f.name == name && f.of == of {
			return f
		}
	}
	g.fields = append(g.fields, fieldGroup{name: name, of: of, values: map[string][]ref{}})
	return &g.fields[len(g.fields)-1]
}

func (f *fieldGroup) add(at ref, values []string) {
	for _, v := range values {
		f.values[v] = append(f.values[v], at)
	}
}

// search is one lookup.
type search struct {
	attributes Attributes
	path       *path
	client     netip.Addr
	grouped    *clientip.Finder // the finder that made group; nil: none
	group      string
	found      []ref
}

// from sets the client of a request.
func (s *search) from(client netip.Addr) {
	if !client.Is4() {
		client = client.Unmap().WithZone("")
	}
	if s.client != client {
		s.client, s.grouped = client, nil
	}
}

// groupBy returns the client's group. It is computed once for all rules that use it, and kept
// for the next request of the same client, as under attack.
func (s *search) groupBy(f *clientip.Finder) string {
	if s.grouped != f {
		s.grouped, s.group = f, f.Group(s.client)
	}
	return s.group
}

func (x *index) find(s *search) {
	x.any.find(s)
	if x.hosts == nil && x.below == nil {
		return
	}
	host := s.attributes.Host()
	if t := x.hosts[host]; t != nil {
		t.find(s)
	}
	if x.below == nil {
		return
	}
	for {
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return
		}
		if t := x.below[rest]; t != nil {
			t.find(s)
		}
		host = rest
	}
}

func (t *tree) find(s *search) {
	t.any.find(s)
	if s.path.ok {
		t.root.find(s, 0)
	}
}

// find visits the nodes that are a prefix of the path. There are no more of
// these than patterns, and each is visited once.
func (n *node) find(s *search, depth int) {
	done := depth == len(s.path.segments)
	switch {
	case !done:
		n.ends[endBelow].find(s)
	case s.path.slash:
		n.ends[endBelow].find(s)
		n.ends[endSlash].find(s)
	default:
		n.ends[endHere].find(s)
	}
	if done {
		return
	}
	if next := n.literal[s.path.segments[depth]]; next != nil {
		next.find(s, depth+1)
	}
	if n.wild != nil {
		n.wild.find(s, depth+1)
	}
}

func (g *group) find(s *search) {
	if g == nil {
		return
	}
	s.found = append(s.found, g.plain...)
	for i := range g.fields {
		f := &g.fields[i]
		var values []string
		var err error
		switch f.of {
		case ofHeaders:
			values = s.attributes.Header(f.name)
		case ofQueries:
			values, err = s.attributes.Query(f.name)
		case ofDescriptor:
			if d, ok := s.attributes.(described); ok {
				values, _ = d.Descriptor(f.name)
			}
		}
		if err != nil { // some server may read any value
			for _, refs := range f.values {
				s.found = append(s.found, refs...)
			}
			continue
		}
		for _, v := range values {
			s.found = append(s.found, f.values[v]...)
		}
	}
	if g.networks == nil || !s.client.IsValid() {
		return
	}
	lengths := g.lengths[0]
	if s.client.Is6() {
		lengths = g.lengths[1]
	}
	for _, bits := range lengths {
		p, _ := s.client.Prefix(bits) // the client has no zone and bits fit its family
		s.found = append(s.found, g.networks[p]...)
	}
}
