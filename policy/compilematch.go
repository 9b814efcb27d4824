// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/wire"
)

func (c *compiler) match(r *rule) {
	m := &r.Match
	m.Methods = slices.Clone(m.Methods)
	for i, method := range m.Methods {
		if !wire.Token(method) || strings.ToUpper(method) != method {
			c.fault(in("Match", "Methods").item(i), "%q is not a method; methods are written in capitals, such as POST", method)
		}
	}
	m.Hosts = slices.Clone(m.Hosts)
	for i, h := range m.Hosts {
		host, err := ParseHost(h)
		if err != nil {
			c.fault(in("Match", "Hosts").item(i), "%w", err)
		}
		m.Hosts[i] = host
	}
	r.patterns = c.patterns(in("Match", "Paths"), m.Paths)
	r.except = c.patterns(in("Match", "Except"), m.Except)
	c.excepted(r)
	m.Headers = c.fields(in("Match", "Headers"), m.Headers, true)
	m.Queries = c.fields(in("Match", "Queries"), m.Queries, false)
	c.descriptor(m)
	m.Networks = c.networks(in("Match", "Networks"), m.Networks)
	for i, n := range m.Networks {
		if slices.ContainsFunc(r.ExemptNetworks, func(e netip.Prefix) bool { return covers(e.Masked(), n) }) {
			c.fault(in("Match", "Networks").item(i), "can never match, as the rule exempts all of %v", n)
		}
	}
	for _, n := range []int{len(m.Methods), len(m.Hosts), len(m.Paths), len(m.Except), len(m.Headers), len(m.Queries), len(m.Networks), len(m.Descriptor), len(m.ExceptDescriptor)} {
		if n > maxListed {
			c.fault(in("Match"), "a list of %d; at most %d are accepted", n, maxListed)
		}
	}
}

// ParseHost returns a host to match, api.example.com or *.example.com, in the form in which
// hosts are compared. The error says what to write.
func ParseHost(text string) (string, error) {
	host := strings.TrimSuffix(strings.ToLower(text), ".")
	if !validHost(strings.TrimPrefix(host, "*.")) {
		return "", fmt.Errorf("%q is not a host; use api.example.com, or *.example.com for all below it, without a port", text)
	}
	return wire.Host(host), nil
}

func (c *compiler) patterns(where place, texts []string) []pattern {
	patterns := make([]pattern, 0, len(texts))
	for i, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			c.fault(where.item(i), "%w", err)
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns
}

// excepted finds paths that can never match because they are excepted.
func (c *compiler) excepted(r *rule) {
	for i := range r.except {
		all := &r.except[i]
		if len(r.patterns) == 0 && all.end == endBelow && len(all.segments) == 0 {
			c.fault(in("Match", "Except").item(i), "%q excepts every path: the rule can never match; leave it out, or except less", all.text)
		}
		for j := range r.patterns {
			if r.patterns[j].within(all) {
				c.fault(in("Match", "Paths").item(j), "%q can never match, as %q is excepted; remove one of them", r.patterns[j].text, all.text)
			}
		}
	}
}

func covers(wide, narrow netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

func validHost(h string) bool {
	if h == "" || len(h) > 253 {
		return false
	}
	if a, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil {
		return a.Is4() || h[0] == '['
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := label[i]; c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

func (c *compiler) fields(where place, fields []Field, header bool) []Field {
	fields = slices.Clone(fields)
	for i := range fields {
		f, at := &fields[i], where.item(i)
		if header {
			if !wire.Token(f.Name) {
				c.fault(at, "%q is not a header field's name; use one such as X-User", f.Name)
			}
			f.Name = canonical(f.Name)
		} else if f.Name == "" {
			c.fault(at, "a parameter or an entry without a name; set its name")
		}
		if f.Absent && len(f.Values) > 0 {
			c.fault(at, "%s can never be absent and have a value; say one of them", f.Name)
		}
		if slices.Contains(f.Values, "") {
			c.fault(at, "%s: an empty value; leave the values out for any, or say that it is absent", f.Name)
		}
		for _, g := range fields[:i] {
			if g.Name == f.Name {
				c.fault(at, "%s is matched twice, and both must hold; use its values as one list", f.Name)
			}
		}
	}
	return fields
}

// networks checks prefixes and makes them comparable.
func (c *compiler) networks(where place, networks []netip.Prefix) []netip.Prefix {
	networks = slices.Clone(networks)
	for i, n := range networks {
		if !n.IsValid() {
			c.fault(where.item(i), "is not a network; use one such as 10.0.0.0/8")
			continue
		}
		networks[i] = clientip.Masked(n)
	}
	return networks
}

// newExample returns an empty request for fillExample.
func newExample() *Request {
	return &Request{Headers: map[string][]string{}, Queries: map[string][]string{}}
}

// fillExample makes p a request that the rule matches.
func (r *rule) fillExample(p *Request) {
	clear(p.Headers)
	clear(p.Queries)
	*p = Request{Method: "GET", Headers: p.Headers, Queries: p.Queries}
	for _, f := range r.Match.Descriptor {
		if p.Descriptor == nil {
			p.Descriptor = make(map[string]string)
		}
		p.Descriptor[f.Name] = strings.ReplaceAll(append(slices.Clone(f.Values), "example")[0], "*", "example")
	}
	m := &r.Match
	if len(m.Methods) > 0 {
		p.Method = m.Methods[0]
	}
	if len(m.Hosts) > 0 {
		p.Host = strings.Replace(m.Hosts[0], "*.", "example.", 1)
	}
	p.Path = r.examplePath()
	fill := func(fields []Field, into map[string][]string) {
		for _, f := range fields {
			if len(f.Values) > 0 {
				into[f.Name] = f.Values[:1]
			} else if !f.Absent {
				into[f.Name] = []string{"example"}
			}
		}
	}
	fill(m.Headers, p.Headers)
	fill(m.Queries, p.Queries)
	if len(m.Networks) > 0 {
		p.Client = m.Networks[0].Addr()
	}
}

// examplePath returns a path that the rule matches, or "/" or the like if it finds none.
func (r *rule) examplePath() string {
	if len(r.except) == 0 {
		if len(r.patterns) == 0 {
			return "/"
		}
		return r.patterns[0].example()
	}
	candidates := []string{"/", "/example", "/example/"}
	for i := range r.patterns {
		s := r.patterns[i].example()
		if candidates = append(candidates, s); r.patterns[i].end == endBelow {
			candidates = append(candidates, s+"example")
		}
	}
	if len(r.patterns) > 0 {
		candidates = candidates[3:]
	}
	var at path
	for _, s := range candidates {
		if at.set(s); !r.excepts(&at) {
			return s
		}
	}
	return candidates[0]
}

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
