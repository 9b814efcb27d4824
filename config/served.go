// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/policy"
)

// frontKind says what a kind of front has.
type frontKind struct {
	rules, bodies, responses bool
	// requests and descriptors say what the rules decide: requests with a path, header fields and
	// a client, or descriptors of Envoy's Rate Limit Service, or either.
	requests, descriptors bool
	decides               bool // it answers with decisions and passes nothing on
}

// frontKinds are the kinds of fronts by their words.
var frontKinds = map[string]frontKind{
	"":          {rules: true, requests: true, bodies: true, responses: true},
	"proxy":     {rules: true, requests: true, bodies: true, responses: true},
	"check":     {rules: true, requests: true, decides: true},
	"ext_authz": {rules: true, requests: true, decides: true},
	"api":       {rules: true, requests: true, descriptors: true, decides: true},
	"resp":      {rules: true, requests: true, descriptors: true, decides: true},
	"rls":       {rules: true, descriptors: true, decides: true},
	"tcp":       {},
}

// lacks returns which part of requests a rule needs that a kind of front does not have, and what
// to write; "" if there is none.
func (k frontKind) lacks(r *policy.Rule) string {
	m, sources := &r.Match, sourcesOf(r)
	switch {
	case !k.descriptors && (len(m.Descriptor)+len(m.ExceptDescriptor) > 0 || slices.Contains(sources, sourceDescriptor)):
		return "is for descriptors, which only serve: rls has"
	case k.requests:
		return ""
	case len(m.Methods)+len(m.Paths)+len(m.Except)+len(m.Headers)+len(m.Queries)+len(m.Networks) > 0:
		return "matches by what descriptors do not have; use match: {host: DOMAIN, descriptor: {KEY: VALUE}}"
	case r.Cost.Of == policy.RequestHeader:
		return "costs what a header field says, and descriptors have none; leave cost out: Envoy says it as hits_addend"
	}
	for _, s := range sources {
		switch s {
		case sourceDescriptor, sourceHost:
		case sourceIP:
			return "is keyed by ip, and descriptors have no client; use by: descriptor.KEY, such as descriptor.remote_address"
		default:
			return "is keyed by " + s + ", which descriptors do not have; use by: descriptor.KEY"
		}
	}
	return ""
}

// sourcesOf returns the sources of all keys and tiers of a rule.
func sourcesOf(r *policy.Rule) (all []string) {
	var add func(policy.Part)
	add = func(p policy.Part) {
		if of := p.Parts(); len(of) != 1 || of[0] != p {
			for _, p := range of {
				add(p)
			}
			return
		}
		all = append(all, p.Source)
	}
	for i := range r.Levels {
		for _, p := range r.Levels[i].By {
			add(p)
		}
		if t := r.Levels[i].Tiers; t != nil {
			add(t.By)
		}
	}
	return all
}

// servable leaves out the rules that a listener lacks something for, if it names none.
func (d *decoder) servable(n *yaml.Node, c *Config, l *Listener) {
	k := frontKinds[l.Serve]
	rules := slices.DeleteFunc(slices.Clone(c.Policy.Rules()), func(r policy.Rule) bool { return k.lacks(&r) != "" })
	if len(rules) < len(c.Policy.Rules()) {
		d.compile(n, c, l, rules)
	}
}

// compile compiles the rules of a listener.
func (d *decoder) compile(at *yaml.Node, c *Config, l *Listener, rules []policy.Rule) {
	p, err := policy.Compile(rules)
	if err != nil {
		d.Fault(at, "%v", err)
		return
	}
	if c.policies == nil {
		c.policies = make(map[string]*policy.Policy)
	}
	c.policies[l.Address] = p
}

// unheard finds rules that apply at no listener.
func (d *decoder) unheard(c *Config, nodes []*yaml.Node) {
	listens := c.Listen
	if len(listens) == 0 && len(c.Upstreams) > 0 {
		listens = []Listener{{}} // which listens on the default address
	}
	applies, heard := make(map[string]bool), false
	var kinds []frontKind // of the listeners that name no rules
	for i := range listens {
		l := &listens[i]
		if k := frontKinds[l.Serve]; k.rules {
			heard = true
			if len(l.Rules) == 0 {
				kinds = append(kinds, k)
			}
			for _, name := range l.Rules {
				applies[name] = true
			}
		}
	}
	for i := range c.Policy.Rules() {
		r := &c.Policy.Rules()[i]
		why := ""
		for _, k := range kinds {
			lacks := k.lacks(r)
			applies[r.Name] = applies[r.Name] || lacks == ""
			if why == "" || k.descriptors { // that says more
				why = lacks
			}
		}
		switch {
		case !heard || applies[r.Name]:
		case len(kinds) > 0:
			d.Fault(nodes[i], "rule %q applies at no listener: it %s", r.Name, why)
		default:
			d.Fault(nodes[i], "rule %q applies at no listener; add it to the rules of one, or remove it", r.Name)
		}
	}
}

// unserved finds rules that a listener of a kind cannot serve.
func (d *decoder) unserved(n *yaml.Node, c *Config, l *Listener, k frontKind) {
	all := c.PolicyOf(l).Rules()
	for i := range all {
		why := all[i].Unserved(k.bodies, k.responses)
		if why == "" && len(l.Rules) > 0 {
			why = k.lacks(&all[i])
		}
		if why == "" && !k.bodies && all[i].Cost.Of == policy.RequestBytes {
			why = "counts bytes of bodies, and there are none here; let it count requests"
		}
		if k.rules && why != "" {
			d.Fault(n, "rule %q %s; or name the other rules under rules of this listener", all[i].Name, why)
		}
	}
}
