// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"runtime"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// failures are the words for the values of sluice.Failure.
var failures = []string{"open", "local", "closed"}

// ruleReader reads rules one after the other into the same variables, so that its fields are
// made once.
type ruleReader struct {
	*decoder
	fields   []field
	rule     policy.Rule
	flat     policy.Level // of a rule without levels
	own      []*yaml.Node // keys of a level that are in the rule itself
	levels   *yaml.Node   // nil without levels
	platform *yaml.Node   // of like; nil without it
	mode     *yaml.Node   // nil without a mode
	status   int64
}

// rules returns the rules and the faults of each.
func (d *decoder) rules(nodes []*yaml.Node, exempt []netip.Prefix) ([]policy.Rule, []Faults) {
	rules, faults := make([]policy.Rule, len(nodes)), make([]Faults, len(nodes))
	lines := make(map[string]int, len(nodes))
	r := d.newRuleReader()
	for i, n := range nodes {
		if i%32 == 0 {
			runtime.Gosched() // serve requests during a reload
		}
		before, claims := len(d.faults), len(d.claims)
		rules[i] = r.read(n, exempt)
		if name := rules[i].Name; name != "" {
			if line, taken := lines[name]; taken {
				d.fault(child(n, "name"), "%q is the name of the rule on line %d, too; rules of one name would share a budget: choose another", name, line)
			} else {
				lines[name] = n.Line
			}
		}
		if faults[i] = d.faults[before:]; len(faults[i]) > 0 {
			d.claims = d.claims[:claims]
		}
	}
	return rules, faults
}

func (d *decoder) newRuleReader() *ruleReader {
	r := &ruleReader{decoder: d}
	keep := func(f field) field {
		return field{f.name, func(n *yaml.Node) { r.own = append(r.own, n); f.read(n) }}
	}
	match := d.matchFields(&r.rule.Match)
	exempt := []field{
		{"networks", func(n *yaml.Node) {
			var networks []netip.Prefix
			d.networks(n, &networks)
			r.rule.ExemptNetworks = append(networks, r.rule.ExemptNetworks...) // its own first, as locate expects
		}},
		keep(field{"keys", func(n *yaml.Node) { d.keys(n, &r.flat.ExemptKeys) }}),
	}
	r.fields = []field{
		d.word("name", &r.rule.Name),
		{"match", func(n *yaml.Node) { d.mapping(n, "match", match...) }},
		r.held("levels", &r.levels, r.hierarchy),
		r.held("like", &r.platform, func() { d.recorded.words(r.platform, profileNames()...) }),
		{"cost", func(n *yaml.Node) { d.cost(n, &r.rule.Cost) }},
		r.held("mode", &r.mode, func() { r.readMode(r.mode, &r.rule) }),
		{"when", func(n *yaml.Node) { r.rule.When = d.when(n) }},
		enum(d, "failure", &r.rule.Failure, failures...),
		d.flag("shape", &r.rule.Shape),
		{"lease", func(n *yaml.Node) { r.rule.Lease = d.lease(n) }},
		d.number("status", 400, 599, &r.status),
		{"answer", func(n *yaml.Node) { r.rule.Answer = d.answer(n) }},
		d.scalar("retry_jitter", func(n *yaml.Node, s string) {
			var err error
			if r.rule.RetryJitter, err = policy.ParseJitter(s); err != nil {
				d.fault(n, "retry_jitter: %v", err)
			}
		}),
		d.duration("max_wait", time.Microsecond, sluice.MaxWait, &r.rule.MaxWait),
		{"exempt", func(n *yaml.Node) { d.mapping(n, "exempt", exempt...) }},
	}
	for _, f := range d.levelFields(&r.flat) {
		r.fields = append(r.fields, keep(f))
	}
	return r
}

// held returns a field whose node is stored, and read after the rest of the rule.
func (r *ruleReader) held(name string, node **yaml.Node, read func()) field {
	return field{name, func(n *yaml.Node) {
		if *node = n; r.recorded != nil {
			read()
			*node = nil
		}
	}}
}

// read returns the rule at n.
func (r *ruleReader) read(n *yaml.Node, exempt []netip.Prefix) policy.Rule {
	r.rule, r.flat, r.own = policy.Rule{ExemptNetworks: slices.Clone(exempt)}, policy.Level{}, r.own[:0]
	r.levels, r.mode, r.platform, r.profiles, r.status = nil, nil, nil, nil, 0
	before := len(r.faults)
	r.mapping(n, "a rule", r.fields...)
	r.asProfile(n)
	r.finishLevel()
	if r.rule.Name == "" && len(r.faults) == before {
		r.fault(n, "a rule without a name; use name: and a word that names the budget")
	}
	r.rule.Status = int(r.status)
	if r.levels == nil {
		r.rule.Levels = []policy.Level{r.flat}
	} else {
		r.hierarchy()
	}
	if r.mode != nil {
		r.readMode(r.mode, &r.rule)
	}
	if len(r.profiles) > 0 {
		r.platforms[r.rule.Name] = r.profiles
	}
	return r.rule
}

// hierarchy reads the levels of a rule.
func (r *ruleReader) hierarchy() {
	for _, n := range r.own {
		r.fault(n, "excludes levels; move it into a level")
	}
	r.list(r.levels, func(n *yaml.Node) {
		var l policy.Level
		r.mapping(n, "a level", append(r.levelFields(&l), r.word("name", &l.Name), field{"exempt", func(n *yaml.Node) {
			r.mapping(n, "exempt", field{"keys", func(n *yaml.Node) { r.keys(n, &l.ExemptKeys) }})
		}})...)
		r.finishLevel()
		r.rule.Levels = append(r.rule.Levels, l)
	})
}

// levelFields returns the keys of a level or, if a rule has only one, of the rule itself.
func (d *decoder) levelFields(l *policy.Level) []field {
	return []field{
		{"by", func(n *yaml.Node) { d.list(n, func(n *yaml.Node) { l.By = append(l.By, d.keyPart(n)) }) }},
		enum(d, "missing", &l.Missing, "refuse", "share", "skip"),
		{"limits", func(n *yaml.Node) {
			if l.Unlimited = none(n); !l.Unlimited {
				l.Limits = d.limitList(n, like{})
			}
		}},
		{"block", func(n *yaml.Node) { d.blocks(n, l) }},
		{"in_flight", func(n *yaml.Node) { l.InFlight = d.slots(n, "in_flight", "requests may run") }},
		d.afterLimits("tiers", func(n *yaml.Node) { l.Tiers = d.tiers(n, likeOf(l)) }),
		d.afterLimits("overrides", func(n *yaml.Node) {
			of := likeOf(l)
			d.list(n, func(n *yaml.Node) { d.override(n, l, of) })
		}),
		d.afterLimits("candidates", func(n *yaml.Node) { d.candidates(n, l, likeOf(l)) }),
	}
}

// afterLimits returns a field that is read after the limits of its level, which its own may
// replace.
func (d *decoder) afterLimits(name string, read func(n *yaml.Node)) field {
	return field{name, func(n *yaml.Node) {
		if d.recorded != nil {
			read(n)
			return
		}
		d.later = append(d.later, func() { read(n) })
	}}
}

// finishLevel reads the deferred fields.
func (d *decoder) finishLevel() {
	for _, read := range d.later {
		read()
	}
	d.later = d.later[:0]
}

func (d *decoder) candidates(n *yaml.Node, l *policy.Level, of like) {
	d.pairs(n, "candidates", maxLevels, func(key, value *yaml.Node) {
		c := policy.Candidate{Name: key.Value}
		byTier := child(value, "limits") != nil || child(value, "tiers") != nil
		if byTier || d.recorded != nil {
			d.mapping(value, "a candidate", field{"limits", func(n *yaml.Node) { c.Limits = d.hardLimits(n, of) }}, field{"tiers", func(n *yaml.Node) {
				c.Tiers = map[string][]sluice.Limit{}
				d.pairs(n, "tiers", 1000, func(key, value *yaml.Node) { c.Tiers[key.Value] = d.hardLimits(value, of) })
			}})
		}
		if !byTier {
			c.Limits = d.hardLimits(value, of)
		}
		l.Candidates = append(l.Candidates, c)
	})
}

// hardLimits reads the limits of a candidate.
func (d *decoder) hardLimits(n *yaml.Node, of like) (limits []sluice.Limit) {
	for _, l := range d.limitList(n, of) {
		if l.Grace != nil {
			d.fault(n, "a candidate with a soft limit; use hard limits")
		}
		limits = append(limits, l.Limit)
	}
	return limits
}

func (d *decoder) readMode(n *yaml.Node, r *policy.Rule) {
	var word string
	d.choice(n, "mode", &word, "enforce", "shadow", "soft")
	soft := slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		return slices.ContainsFunc(l.Limits, func(l policy.Limit) bool { return l.Grace != nil })
	})
	switch {
	case word == "shadow":
		r.Shadow = true
	case word == "soft" && !soft:
		d.fault(n, "mode is soft but no limit is; use one such as: soft 100/min grace 500/day")
	case word == "enforce" && soft:
		d.fault(n, "mode is enforce but a limit is soft; use mode: soft, or leave it out")
	}
}

func (d *decoder) matchFields(m *policy.Match) []field {
	return []field{
		{"method", func(n *yaml.Node) { d.texts(n, "method", &m.Methods) }},
		{"host", func(n *yaml.Node) { d.texts(n, "host", &m.Hosts) }},
		{"path", func(n *yaml.Node) { d.texts(n, "path", &m.Paths) }},
		{"except_path", func(n *yaml.Node) { d.texts(n, "except_path", &m.Except) }},
		{"header", func(n *yaml.Node) { d.pairsOf(n, "header", &m.Headers) }},
		{"query", func(n *yaml.Node) { d.pairsOf(n, "query", &m.Queries) }},
		{"without_header", func(n *yaml.Node) { d.absent(n, "without_header", &m.Headers) }},
		{"without_query", func(n *yaml.Node) { d.absent(n, "without_query", &m.Queries) }},
		{"network", func(n *yaml.Node) { d.networks(n, &m.Networks) }},
	}
}

// pairsOf reads names, each with the values of which a request must have one; "*" is any.
func (d *decoder) pairsOf(n *yaml.Node, what string, into *[]policy.Field) {
	d.pairs(n, what, 64, func(key, value *yaml.Node) {
		f := policy.Field{Name: key.Value}
		d.texts(value, what+" "+shorten(key.Value), &f.Values)
		if len(f.Values) == 1 && f.Values[0] == "*" {
			f.Values = nil
		} else if slices.Contains(f.Values, "*") {
			d.fault(value, `"*" is any value, which includes the others; use it alone`)
		}
		*into = append(*into, f)
	})
}

func (d *decoder) absent(n *yaml.Node, what string, into *[]policy.Field) {
	d.each(n, what, func(_ *yaml.Node, s string) { *into = append(*into, policy.Field{Name: s, Absent: true}) })
}

// keyPart reads a part of a key, or {first: […]}.
func (d *decoder) keyPart(n *yaml.Node) (p policy.Part) {
	m := d.enter(n)
	if m == nil {
		return p
	}
	if m.Kind != yaml.MappingNode {
		return d.part(m)
	}
	var parts []policy.Part
	before := len(d.faults)
	d.mapping(m, "by", field{"first", func(n *yaml.Node) {
		d.list(n, func(n *yaml.Node) { parts = append(parts, d.part(n)) })
	}})
	if len(d.faults) == before && len(parts) < 2 {
		d.fault(m, "first is a list of parts; the key is the first that a request has; use for example {first: [claim.sub, ip]}")
	}
	return policy.First(parts...)
}

// part reads a part of a key. A faulty part is returned, too, so that the others keep their
// places.
func (d *decoder) part(n *yaml.Node) (p policy.Part) {
	if s, ok := d.text(n, "by"); ok {
		var err error
		if p, err = policy.ParsePart(s); err != nil {
			d.fault(n, "%v", err)
		}
	}
	if p.Source == sourceClaim || p.Source == sourceCertificate {
		d.claims = append(d.claims, claim{n, p})
	}
	return p
}

// keys reads keys, each a value or, for several parts, a list.
func (d *decoder) keys(n *yaml.Node, into *[][]string) {
	m := d.enter(n)
	if m == nil {
		return
	}
	if m.Kind != yaml.SequenceNode {
		*into = append(*into, d.key(n))
		return
	}
	if d.recorded.items(m, func(n *yaml.Node) { d.key(n) }) {
		return
	}
	for _, item := range m.Content {
		*into = append(*into, d.key(item))
	}
}

func (d *decoder) key(n *yaml.Node) (values []string) {
	d.texts(n, "a key", &values)
	return values
}

func (d *decoder) tiers(n *yaml.Node, of like) *policy.Tiers {
	t := &policy.Tiers{Limits: map[string][]policy.Limit{}}
	before := len(d.faults)
	d.mapping(n, "tiers",
		field{"by", func(n *yaml.Node) { t.By = d.part(n) }},
		field{"limits", func(n *yaml.Node) {
			d.pairs(n, "limits", 1000, func(key, value *yaml.Node) {
				if none(value) {
					t.Unlimited = append(t.Unlimited, key.Value)
				} else {
					t.Limits[key.Value] = d.limitList(value, of)
				}
			})
		}},
	)
	if t.By.Source == "" && len(d.faults) == before {
		d.fault(n, "tiers without by; set by: the header or claim with the tier, such as by: claim.plan")
	}
	return t
}

func (d *decoder) override(n *yaml.Node, l *policy.Level, of like) {
	var o policy.Override
	before := len(d.faults)
	d.mapping(n, "an override",
		field{"key", func(n *yaml.Node) { o.Key = d.key(n) }},
		field{"limits", func(n *yaml.Node) { o.Limits = d.limitList(n, of) }},
		d.scalar("expires", func(n *yaml.Node, s string) {
			var err error
			if o.Expires, err = time.Parse(time.RFC3339, s); err != nil {
				o.Expires, err = time.Parse(time.DateOnly, s)
			}
			if err != nil {
				d.fault(n, "expires is %q; use a day or an instant, such as 2026-12-31 or 2026-12-31T18:00:00Z", shorten(s))
			}
		}),
		d.word("reason", &o.Reason),
		d.word("author", &o.Author),
	)
	if o.Key == nil && len(d.faults) == before {
		d.fault(n, "an override without a key; set key: the key of these limits")
	}
	l.Overrides = append(l.Overrides, o)
}
