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
	"github.com/sluicegate/sluice/config/internal/document"
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
func (d *decoder) rules(nodes []*yaml.Node, exempt []netip.Prefix) ([]policy.Rule, [][]document.Fault) {
	rules, faults := make([]policy.Rule, len(nodes)), make([][]document.Fault, len(nodes))
	lines := make(map[string]int, len(nodes))
	r := d.newRuleReader()
	for i, n := range nodes {
		if i%32 == 0 {
			runtime.Gosched() // serve requests during a reload
		}
		before, claims := d.Count(), len(d.claims)
		rules[i] = r.read(n, exempt)
		if name := rules[i].Name; name != "" {
			if line, taken := lines[name]; taken {
				d.Fault(document.Child(n, "name"), "%q is the name of the rule on line %d, too; rules of one name would share a budget: choose another", name, line)
			} else {
				lines[name] = n.Line
			}
		}
		if faults[i] = d.Since(before); len(faults[i]) > 0 {
			d.claims = d.claims[:claims]
		}
	}
	return rules, faults
}

func (d *decoder) newRuleReader() *ruleReader {
	r := &ruleReader{decoder: d}
	keep := func(f field) field {
		return document.Key(f.Name, f.Text, func(n *yaml.Node) { r.own = append(r.own, n); f.Read(n) })
	}
	match := d.matchFields(&r.rule.Match)
	exempt := []field{
		document.Key("networks", "Networks of clients that are not limited.", func(n *yaml.Node) {
			var networks []netip.Prefix
			d.networks(n, &networks)
			r.rule.ExemptNetworks = append(networks, r.rule.ExemptNetworks...) // its own first, as locate expects
		}),
		keep(document.Key("keys", "Keys that are not limited: values, lists where a key has several parts.", func(n *yaml.Node) { d.keys(n, &r.flat.ExemptKeys) })),
	}
	r.fields = []field{
		d.Word("name", "Name in metrics, logs and answers, and of the budget: a-z, 0-9, '.', '_' and '-'.", &r.rule.Name).Required(),
		document.Key("match", "Which requests the rule applies to (default: all).", func(n *yaml.Node) { d.Mapping(n, "match", match...) }),
		r.held("levels", "Several keys that are charged together, each with limits of its own.", &r.levels, r.hierarchy),
		r.held("like", "Platform that gives the rule its limits and answers; see sluice profiles.", &r.platform, func() { d.Words(r.platform, profileNames()...) }),
		document.Key("cost", "Units of a request: a number, request-bytes, response-bytes, milliseconds, or a header's number (default 1).", func(n *yaml.Node) { d.cost(n, &r.rule.Cost) }),
		d.Duration("hold_for", "How long the estimate of a cost that is known afterwards is held; if the gateway dies, it is given back after that time (default: not held).", sluice.MinHold, sluice.MaxHold, &r.rule.HoldFor),
		r.held("mode", "enforce, shadow (report, deny nothing) or soft (default enforce).", &r.mode, func() { r.readMode(r.mode, &r.rule) }),
		document.Key("when", "Which responses count (default: every request counts on arrival).", func(n *yaml.Node) { r.rule.When = d.when(n) }),
		document.Enum(d.Decoder, "failure", "What happens while the store is unavailable: open, local or closed (default open).", &r.rule.Failure, failures...),
		d.Flag("shape", "Slow bodies down instead of denying (default false).", &r.rule.Shape),
		document.Key("lease", "Take units of hot keys in advance: true, or a mapping (default false).", func(n *yaml.Node) { r.rule.Lease = d.lease(n) }),
		d.Number("status", "Status of a denial (default 429).", 400, 599, &r.status),
		document.Key("answer", "Status, body and fields of a denial, and fields of every response.", func(n *yaml.Node) { r.rule.Answer = d.answer(n) }),
		d.Scalar("retry_jitter", "How much longer Retry-After may be, at random: 20% or 2s (default: not).", func(n *yaml.Node, s string) {
			var err error
			if r.rule.RetryJitter, err = policy.ParseJitter(s); err != nil {
				d.Fault(n, "retry_jitter: %v", err)
			}
		}),
		d.Duration("max_wait", "How long a request may be delayed instead of being denied (default: not).", time.Microsecond, sluice.MaxWait, &r.rule.MaxWait),
		document.Key("exempt", "Clients and keys to which the rule does not apply.", func(n *yaml.Node) { d.Mapping(n, "exempt", exempt...) }),
	}
	for _, f := range d.levelFields(&r.flat) {
		r.fields = append(r.fields, keep(f))
	}
	return r
}

// held returns a field whose node is stored, and read after the rest of the rule.
func (r *ruleReader) held(name, text string, node **yaml.Node, read func()) field {
	return document.Key(name, text, func(n *yaml.Node) {
		if *node = n; r.Recording() {
			read()
			*node = nil
		}
	})
}

// read returns the rule at n.
func (r *ruleReader) read(n *yaml.Node, exempt []netip.Prefix) policy.Rule {
	r.rule, r.flat, r.own = policy.Rule{ExemptNetworks: slices.Clone(exempt)}, policy.Level{}, r.own[:0]
	r.levels, r.mode, r.platform, r.profiles, r.status = nil, nil, nil, nil, 0
	before := r.Count()
	r.Mapping(n, "a rule", r.fields...)
	r.asProfile(n)
	r.finishLevel()
	if r.rule.Name == "" && r.Count() == before {
		r.Fault(n, "a rule without a name; use name: and a word that names the budget")
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
		r.Fault(n, "excludes levels; move it into a level")
	}
	r.List(r.levels, func(n *yaml.Node) {
		var l policy.Level
		r.Mapping(n, "a level", append(r.levelFields(&l), r.Word("name", "Name of the level.", &l.Name), document.Key("exempt", "Keys of the level that are not limited.", func(n *yaml.Node) {
			r.Mapping(n, "exempt", document.Key("keys", "Keys that are not limited: values, lists where a key has several parts.", func(n *yaml.Node) { r.keys(n, &l.ExemptKeys) }))
		}))...)
		r.finishLevel()
		r.rule.Levels = append(r.rule.Levels, l)
	})
}

// levelFields returns the keys of a level or, if a rule has only one, of the rule itself.
func (d *decoder) levelFields(l *policy.Level) []field {
	return []field{
		document.Key("by", "Key of a request: ip, host, method, path.N, header.NAME, cookie.NAME, query.NAME, claim.NAME, cert.NAME, descriptor.KEY, or a list of these; {first: […]} is the first that a request has.", func(n *yaml.Node) { d.List(n, func(n *yaml.Node) { l.By = append(l.By, d.keyPart(n)) }) }),
		document.Enum(d.Decoder, "missing", "Requests without a part of the key: refuse (400), share one budget, or skip the rule (default refuse).", &l.Missing, "refuse", "share", "skip"),
		document.Key("limits", "Limits such as 100/min or 10/s burst 20, all of which must have room; none: no limit.", func(n *yaml.Node) {
			if l.Unlimited = none(n); !l.Unlimited {
				l.Limits = d.limitList(n, like{})
			}
		}),
		document.Key("block", "Deny a key for a while after many denials: 10min after 20 denials/min.", func(n *yaml.Node) { d.blocks(n, l) }),
		document.Key("in_flight", "Requests at once for each key, a number or {cap, ttl}.", func(n *yaml.Node) {
			l.InFlight = d.slots(n, "in_flight", "requests may run", "Requests at once.", "How long a request that does not end counts (default 10m).")
		}),
		d.afterLimits("tiers", "Limits by the value of a part of the request, such as a customer's tier.", func(n *yaml.Node) { l.Tiers = d.tiers(n, likeOf(l)) }),
		d.afterLimits("overrides", "Limits of single keys.", func(n *yaml.Node) {
			of := likeOf(l)
			d.List(n, func(n *yaml.Node) { d.override(n, l, of) })
		}),
		d.afterLimits("candidates", "Limits by name that are evaluated beside the active ones, and deny nothing; for requests with neither a tier nor an override, or by tier.", func(n *yaml.Node) { d.candidates(n, l, likeOf(l)) }),
	}
}

// afterLimits returns a field that is read after the limits of its level, as its own limits
// may replace them.
func (d *decoder) afterLimits(name, text string, read func(n *yaml.Node)) field {
	return document.Key(name, text, func(n *yaml.Node) {
		if d.Recording() {
			read(n)
			return
		}
		d.later = append(d.later, func() { read(n) })
	})
}

// finishLevel reads the deferred fields.
func (d *decoder) finishLevel() {
	for _, read := range d.later {
		read()
	}
	d.later = d.later[:0]
}

func (d *decoder) candidates(n *yaml.Node, l *policy.Level, of like) {
	d.Pairs(n, "candidates", maxLevels, func(key, value *yaml.Node) {
		c := policy.Candidate{Name: key.Value}
		byTier := document.Child(value, "limits") != nil || document.Child(value, "tiers") != nil
		if byTier || d.Recording() {
			d.Mapping(value, "a candidate", document.Key("limits", "Limits for requests with neither a tier nor an override.", func(n *yaml.Node) { c.Limits = d.hardLimits(n, of) }), document.Key("tiers", "Limits for requests of a tier, by its name.", func(n *yaml.Node) {
				c.Tiers = map[string][]sluice.Limit{}
				d.Pairs(n, "tiers", 1000, func(key, value *yaml.Node) { c.Tiers[key.Value] = d.hardLimits(value, of) })
			}))
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
			d.Fault(n, "a candidate with a soft limit; use hard limits")
		}
		limits = append(limits, l.Limit)
	}
	return limits
}

func (d *decoder) readMode(n *yaml.Node, r *policy.Rule) {
	var word string
	d.Choice(n, "mode", &word, "enforce", "shadow", "soft")
	soft := slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		return slices.ContainsFunc(l.Limits, func(l policy.Limit) bool { return l.Grace != nil })
	})
	switch {
	case word == "shadow":
		r.Shadow = true
	case word == "soft" && !soft:
		d.Fault(n, "mode is soft but no limit is; use one such as: soft 100/min grace 500/day")
	case word == "enforce" && soft:
		d.Fault(n, "mode is enforce but a limit is soft; use mode: soft, or leave it out")
	}
}

func (d *decoder) matchFields(m *policy.Match) []field {
	return []field{
		document.Key("method", "Methods.", func(n *yaml.Node) { d.Texts(n, "method", &m.Methods) }),
		document.Key("host", "Hosts; *.example.com for all below.", func(n *yaml.Node) { d.Texts(n, "host", &m.Hosts) }),
		document.Key("path", "Paths: /a is itself, /a/ all below, {name} a segment, {name...} the rest.", func(n *yaml.Node) { d.Texts(n, "path", &m.Paths) }),
		document.Key("except_path", "Paths to which the rule does not apply.", func(n *yaml.Node) { d.Texts(n, "except_path", &m.Except) }),
		document.Key("header", "Header fields and their values; * is any.", func(n *yaml.Node) { d.pairsOf(n, "header", &m.Headers) }),
		document.Key("query", "Parameters of the query and their values; * is any.", func(n *yaml.Node) { d.pairsOf(n, "query", &m.Queries) }),
		document.Key("descriptor", "Entries of Envoy's descriptor, all that it has, and their values; * is any text.", func(n *yaml.Node) { d.pairsOf(n, "descriptor", &m.Descriptor) }),
		document.Key("except_descriptor", "Entries of descriptors to which the rule does not apply, and their values.", func(n *yaml.Node) { d.pairsOf(n, "except_descriptor", &m.ExceptDescriptor) }),
		document.Key("without_header", "Header fields that must not be there.", func(n *yaml.Node) { d.absent(n, "without_header", &m.Headers) }),
		document.Key("without_query", "Parameters that must not be there.", func(n *yaml.Node) { d.absent(n, "without_query", &m.Queries) }),
		document.Key("network", "Networks of clients.", func(n *yaml.Node) { d.networks(n, &m.Networks) }),
	}
}

// pairsOf reads names, each with the accepted values; "*" is any.
func (d *decoder) pairsOf(n *yaml.Node, what string, into *[]policy.Field) {
	d.Pairs(n, what, 64, func(key, value *yaml.Node) {
		f := policy.Field{Name: key.Value}
		d.Texts(value, what+" "+document.Shorten(key.Value), &f.Values)
		if len(f.Values) == 1 && f.Values[0] == "*" {
			f.Values = nil
		} else if slices.Contains(f.Values, "*") {
			d.Fault(value, `"*" is any value, which includes the others; use it alone`)
		}
		*into = append(*into, f)
	})
}

func (d *decoder) absent(n *yaml.Node, what string, into *[]policy.Field) {
	d.Each(n, what, func(_ *yaml.Node, s string) { *into = append(*into, policy.Field{Name: s, Absent: true}) })
}

// keyPart reads a part of a key, or {first: […]}.
func (d *decoder) keyPart(n *yaml.Node) (p policy.Part) {
	m := d.Enter(n)
	if m == nil {
		return p
	}
	if m.Kind != yaml.MappingNode {
		return d.part(m)
	}
	var parts []policy.Part
	before := d.Count()
	d.Mapping(m, "by", document.Key("first", "Parts; the first that a request has is the key.", func(n *yaml.Node) {
		d.List(n, func(n *yaml.Node) { parts = append(parts, d.part(n)) })
	}))
	if d.Count() == before && len(parts) < 2 {
		d.Fault(m, "first is a list of parts; the key is the first that a request has; use for example {first: [claim.sub, ip]}")
	}
	return policy.First(parts...)
}

// part reads a part of a key. A faulty part is returned, too, so that the others keep their
// places.
func (d *decoder) part(n *yaml.Node) (p policy.Part) {
	if s, ok := d.Text(n, "by"); ok {
		var err error
		if p, err = policy.ParsePart(s); err != nil {
			d.Fault(n, "%v", err)
		}
	}
	if p.Source == sourceClaim || p.Source == sourceCertificate {
		d.claims = append(d.claims, claim{n, p})
	}
	return p
}

// keys reads keys, each a value or, for several parts, a list.
func (d *decoder) keys(n *yaml.Node, into *[][]string) {
	m := d.Enter(n)
	if m == nil {
		return
	}
	if m.Kind != yaml.SequenceNode {
		*into = append(*into, d.key(n))
		return
	}
	if d.Items(m, func(n *yaml.Node) { d.key(n) }) {
		return
	}
	for _, item := range m.Content {
		*into = append(*into, d.key(item))
	}
}

func (d *decoder) key(n *yaml.Node) (values []string) {
	d.Texts(n, "a key", &values)
	return values
}

func (d *decoder) tiers(n *yaml.Node, of like) *policy.Tiers {
	t := &policy.Tiers{Limits: map[string][]policy.Limit{}}
	before := d.Count()
	d.Mapping(n, "tiers",
		document.Key("by", "Part of the request that names the tier, such as claim.plan.", func(n *yaml.Node) { t.By = d.part(n) }),
		document.Key("limits", "Limits of each tier, by its name; none: no limit.", func(n *yaml.Node) {
			d.Pairs(n, "limits", 1000, func(key, value *yaml.Node) {
				if none(value) {
					t.Unlimited = append(t.Unlimited, key.Value)
				} else {
					t.Limits[key.Value] = d.limitList(value, of)
				}
			})
		}),
	)
	if t.By.Source == "" && d.Count() == before {
		d.Fault(n, "tiers without by; set by: the header or claim with the tier, such as by: claim.plan")
	}
	return t
}

func (d *decoder) override(n *yaml.Node, l *policy.Level, of like) {
	var o policy.Override
	before := d.Count()
	d.Mapping(n, "an override",
		document.Key("key", "The key: a value, or a list where it has several parts.", func(n *yaml.Node) { o.Key = d.key(n) }),
		document.Key("limits", "Limits instead of the rule's.", func(n *yaml.Node) { o.Limits = d.limitList(n, of) }),
		d.Scalar("expires", "When the override ends, such as 2026-12-31 or 2026-12-31T18:00:00Z (default: never).", func(n *yaml.Node, s string) {
			var err error
			if o.Expires, err = time.Parse(time.RFC3339, s); err != nil {
				o.Expires, err = time.Parse(time.DateOnly, s)
			}
			if err != nil {
				d.Fault(n, "expires is %q; use a day or an instant, such as 2026-12-31 or 2026-12-31T18:00:00Z", document.Shorten(s))
			}
		}),
		d.Word("reason", "Why.", &o.Reason),
		d.Word("author", "Author of the override.", &o.Author),
	)
	if o.Key == nil && d.Count() == before {
		d.Fault(n, "an override without a key; set key: the key of these limits")
	}
	l.Overrides = append(l.Overrides, o)
}
