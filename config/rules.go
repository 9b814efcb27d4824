// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"runtime"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// rule is a rule being read.
type rule struct {
	policy.Rule
	faults Faults // what is wrong with how it is written
}

func (d *decoder) rules(nodes []*yaml.Node, exempt []netip.Prefix) []rule {
	rules := make([]rule, len(nodes))
	lines := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if i%turn == 0 {
			runtime.Gosched()
		}
		before := len(d.faults)
		rules[i].Rule = d.rule(n, exempt)
		if name := rules[i].Name; name != "" {
			if line, taken := lines[name]; taken {
				d.fault(locate(n, "Name"), "%q is the name of the rule on line %d, too; two rules of one name would share a budget: choose another", name, line)
			} else {
				lines[name] = n.Line
			}
		}
		rules[i].faults = d.faults[before:]
	}
	return rules
}

func (d *decoder) rule(n *yaml.Node, exempt []netip.Prefix) policy.Rule {
	r := policy.Rule{ExemptNetworks: slices.Clone(exempt)}
	var flat policy.Level
	var own []*yaml.Node // keys of a level that stand in the rule itself
	var levels, mode *yaml.Node
	var status int64
	keep := func(f field) field {
		return field{f.name, func(n *yaml.Node) { own = append(own, n); f.read(n) }}
	}
	fields := make([]field, 0, 32) // it stays here, and holds those of a level, too
	fields = append(fields, []field{
		d.word("name", &r.Name),
		{"match", func(n *yaml.Node) { d.match(n, &r.Match) }},
		{"levels", func(n *yaml.Node) { levels = n }},
		{"cost", func(n *yaml.Node) { d.cost(n, &r.Cost) }},
		{"mode", func(n *yaml.Node) { mode = n }},
		{"when", func(n *yaml.Node) { r.When = d.when(n) }},
		{"failure", func(n *yaml.Node) { d.failure(n, &r.Failure) }},
		d.flag("shape", &r.Shape),
		{"lease", func(n *yaml.Node) { r.Lease = d.lease(n) }},
		d.number("status", 400, 599, &status),
		d.duration("max_wait", time.Microsecond, sluice.MaxWait, &r.MaxWait),
		{"exempt", func(n *yaml.Node) {
			d.mapping(n, "exempt",
				field{"networks", func(n *yaml.Node) {
					var networks []netip.Prefix
					d.networks(n, &networks)
					r.ExemptNetworks = append(networks, r.ExemptNetworks...) // its own first, as locate expects
				}},
				keep(field{"keys", func(n *yaml.Node) { d.keys(n, &flat.ExemptKeys) }}),
			)
		}},
	}...)
	for _, f := range d.levelFields(&flat) {
		fields = append(fields, keep(f))
	}
	before := len(d.faults)
	d.mapping(n, "a rule", fields...)
	if r.Name == "" && len(d.faults) == before {
		d.fault(n, "a rule without a name; write name: and a word that says whose budget it is")
	}
	r.Status = int(status)
	if levels == nil {
		r.Levels = []policy.Level{flat}
	} else {
		for _, n := range own {
			d.fault(n, "stands beside levels; write it into the level that it is about")
		}
		d.list(levels, func(n *yaml.Node) {
			var l policy.Level
			d.mapping(n, "a level", append(d.levelFields(&l), d.word("name", &l.Name), field{"exempt", func(n *yaml.Node) {
				d.mapping(n, "exempt", field{"keys", func(n *yaml.Node) { d.keys(n, &l.ExemptKeys) }})
			}})...)
			r.Levels = append(r.Levels, l)
		})
	}
	if mode != nil {
		d.mode(mode, &r)
	}
	return r
}

// levelFields are the keys that stand in a level or, if a rule has only one,
// in the rule itself.
func (d *decoder) levelFields(l *policy.Level) []field {
	return []field{
		{"by", func(n *yaml.Node) { d.list(n, func(n *yaml.Node) { d.part(n, &l.By) }) }},
		{"missing", func(n *yaml.Node) {
			var word string
			d.choice(n, "missing", &word, "refuse", "share", "skip")
			l.Missing = policy.Missing(max(slices.Index([]string{"refuse", "share", "skip"}, word), 0))
		}},
		{"limits", func(n *yaml.Node) { l.Limits = d.limits(n) }},
		{"in_flight", func(n *yaml.Node) { l.InFlight = d.slots(n, "in_flight", "requests may run") }},
		{"plans", func(n *yaml.Node) { l.Tiers = d.plans(n) }},
		{"overrides", func(n *yaml.Node) { d.list(n, func(n *yaml.Node) { d.override(n, l) }) }},
		{"candidates", func(n *yaml.Node) {
			d.pairs(n, "candidates", policy.MaxLevels, func(key, value *yaml.Node) {
				c := policy.Candidate{Name: key.Value}
				for _, l := range d.limits(value) {
					if l.Grace != nil {
						d.fault(value, "a candidate with a soft limit; write its limits as hard ones")
					}
					c.Limits = append(c.Limits, l.Limit)
				}
				l.Candidates = append(l.Candidates, c)
			})
		}},
	}
}

func (d *decoder) mode(n *yaml.Node, r *policy.Rule) {
	var word string
	d.choice(n, "mode", &word, "enforce", "shadow", "soft")
	soft := slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		return slices.ContainsFunc(l.Limits, func(l policy.Limit) bool { return l.Grace != nil })
	})
	switch {
	case word == "shadow":
		r.Shadow = true
	case word == "soft" && !soft:
		d.fault(n, "mode is soft but no limit is; write one such as: soft 100/min grace 500/day")
	case word == "enforce" && soft:
		d.fault(n, "mode is enforce but a limit is soft; write mode: soft, or leave it out")
	}
}

func (d *decoder) match(n *yaml.Node, m *policy.Match) {
	d.mapping(n, "match",
		field{"method", func(n *yaml.Node) { d.texts(n, "method", &m.Methods) }},
		field{"host", func(n *yaml.Node) { d.texts(n, "host", &m.Hosts) }},
		field{"path", func(n *yaml.Node) { d.texts(n, "path", &m.Paths) }},
		field{"except_path", func(n *yaml.Node) { d.texts(n, "except_path", &m.Except) }},
		field{"header", func(n *yaml.Node) { d.fields(n, "header", &m.Headers) }},
		field{"query", func(n *yaml.Node) { d.fields(n, "query", &m.Queries) }},
		field{"without_header", func(n *yaml.Node) { d.absent(n, "without_header", &m.Headers) }},
		field{"without_query", func(n *yaml.Node) { d.absent(n, "without_query", &m.Queries) }},
		field{"network", func(n *yaml.Node) { d.networks(n, &m.Networks) }},
	)
}

// fields reads names with the values of which one must be there; "*" is any.
func (d *decoder) fields(n *yaml.Node, what string, into *[]policy.Field) {
	d.pairs(n, what, 64, func(key, value *yaml.Node) {
		f := policy.Field{Name: key.Value}
		d.texts(value, what+" "+shorten(key.Value), &f.Values)
		if len(f.Values) == 1 && f.Values[0] == "*" {
			f.Values = nil
		} else if slices.Contains(f.Values, "*") {
			d.fault(value, `"*" is any value, which includes the others; write it alone`)
		}
		*into = append(*into, f)
	})
}

func (d *decoder) absent(n *yaml.Node, what string, into *[]policy.Field) {
	d.list(n, func(n *yaml.Node) {
		if s, ok := d.text(n, what); ok {
			*into = append(*into, policy.Field{Name: s, Absent: true})
		}
	})
}

func (d *decoder) part(n *yaml.Node, into *[]policy.Part) {
	s, ok := d.text(n, "by")
	if !ok {
		return
	}
	p, err := policy.ParsePart(s)
	if err != nil {
		d.fault(n, "%v", err)
		return
	}
	*into = append(*into, p)
}

// keys reads keys, each a value or, where it has several parts, a list.
func (d *decoder) keys(n *yaml.Node, into *[][]string) {
	m := d.enter(n)
	if m == nil {
		return
	}
	if m.Kind != yaml.SequenceNode {
		*into = append(*into, d.key(n))
		return
	}
	for _, item := range m.Content {
		*into = append(*into, d.key(item))
	}
}

func (d *decoder) key(n *yaml.Node) (values []string) {
	d.list(n, func(n *yaml.Node) {
		if s, ok := d.text(n, "a key"); ok {
			values = append(values, s)
		}
	})
	return values
}

func (d *decoder) plans(n *yaml.Node) *policy.Tiers {
	t := &policy.Tiers{Limits: map[string][]policy.Limit{}}
	before := len(d.faults)
	d.mapping(n, "plans",
		field{"by", func(n *yaml.Node) {
			var parts []policy.Part
			d.part(n, &parts)
			if len(parts) == 1 {
				t.By = parts[0]
			}
		}},
		field{"limits", func(n *yaml.Node) {
			d.pairs(n, "limits", 1000, func(key, value *yaml.Node) { t.Limits[key.Value] = d.limits(value) })
		}},
	)
	if t.By.Source == policy.SourceNone && len(d.faults) == before {
		d.fault(n, "plans without by; write which header or claim names the plan, such as by: claim.plan")
	}
	return t
}

func (d *decoder) override(n *yaml.Node, l *policy.Level) {
	var o policy.Override
	before := len(d.faults)
	d.mapping(n, "an override",
		field{"key", func(n *yaml.Node) { o.Key = d.key(n) }},
		field{"limits", func(n *yaml.Node) { o.Limits = d.limits(n) }},
		field{"expires", func(n *yaml.Node) {
			s, ok := d.text(n, "expires")
			if !ok {
				return
			}
			var err error
			if o.Expires, err = time.Parse(time.RFC3339, s); err != nil {
				o.Expires, err = time.Parse(time.DateOnly, s)
			}
			if err != nil {
				d.fault(n, "expires is %q; write a day or an instant, such as 2026-12-31 or 2026-12-31T18:00:00Z", shorten(s))
			}
		}},
		d.word("reason", &o.Reason),
		d.word("author", &o.Author),
	)
	if o.Key == nil && len(d.faults) == before {
		d.fault(n, "an override without a key; write whose limits these are")
	}
	l.Overrides = append(l.Overrides, o)
}

func (d *decoder) failure(n *yaml.Node, into *policy.Failure) {
	var word string
	d.choice(n, "failure", &word, "open", "local", "closed")
	for f := policy.Open; f <= policy.Closed; f++ {
		if f.String() == word {
			*into = f
		}
	}
}
