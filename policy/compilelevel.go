// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/wire"
)

func (c *compiler) level(r *rule, i int) {
	source, l := &r.Levels[i], &r.levels[i]
	l.Level, l.Rule = source, r.Rule
	at := in("Levels").item(i)
	if source.Name == "" {
		if len(r.Levels) > 1 {
			c.fault(at.in("Name"), "is empty; the levels of a hierarchy need names")
		}
	} else if !bounds.ValidName(source.Name) {
		c.fault(at.in("Name"), "%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", source.Name)
	}
	for j := range r.Levels[:i] {
		if r.Levels[j].Name == source.Name && source.Name != "" {
			c.fault(at.in("Name"), "%q is the name of level %d, too; choose another", source.Name, j+1)
		}
	}
	if source.Missing >= missings {
		c.fault(at.in("Missing"), "%v is not valid; use refuse, share or skip", source.Missing)
	}
	if len(source.By) > bounds.MaxParts {
		c.fault(at.in("By"), "%d parts; a key has at most %d", len(source.By), bounds.MaxParts)
	}
	source.By = slices.Clone(source.By)
	l.parts = make([]keyPart, 0, len(source.By))
	for j := range source.By {
		here := at.in("By").item(j)
		part := c.part(r, here, source.By[j])
		source.By[j] = part.Part
		c.refusing(r, here, part.Part, source.Missing)
		if slices.ContainsFunc(l.parts, func(p keyPart) bool { return p.Part == part.Part }) {
			c.fault(here, "%v is a part of the key already; leave it out", part.Part)
		}
		l.parts = append(l.parts, part)
	}
	scope := r.Name
	if scope == "" {
		scope = "unnamed" // a fault already, not one of each limit
	}
	if source.Name != "" {
		scope += "/" + source.Name
	}
	l.Scope = scope
	if source.InFlight != nil {
		c.inFlight(l, at)
	}
	c.blocks(r, source, at)
	if source.InFlight == nil || len(source.Limits)+len(source.Overrides)+len(source.Candidates) > 0 || source.Tiers != nil {
		l.Limited = true
		here := at.in("Limits")
		if !source.Unlimited {
			l.Base = c.set(r, here, scope, source.Limits)
			c.leasable(r, here, l.Base)
		}
	}
	c.unlimited(source, at)
	c.tiers(r, l, at, scope)
	c.overrides(r, l, at)
	c.candidates(r, l, at, scope)
	if len(source.ExemptKeys) > 0 {
		l.exempt = make(map[string]struct{}, len(source.ExemptKeys))
	}
	source.ExemptKeys = slices.Clone(source.ExemptKeys)
	for j := range source.ExemptKeys {
		if c.key(l, at.in("ExemptKeys").item(j), &source.ExemptKeys[j]) {
			l.exempt[encodeKey(source.ExemptKeys[j])] = struct{}{}
		}
	}
}

func (c *compiler) inFlight(l *CompiledLevel, at place) {
	l.Slots = *l.InFlight
	if l.Slots.TTL == 0 {
		l.Slots.TTL = bounds.DefaultLease
	}
	if l.Slots.Name == "" {
		l.Slots.Name = "slots"
	}
	if err := l.Slots.Validate(); err != nil {
		for _, err := range joined(err) {
			c.fault(at.in("InFlight"), "%w", err)
		}
	}
}

// key replaces values by their form in requests, if they are a key of the level.
func (c *compiler) key(l *CompiledLevel, at place, values *[]string) bool {
	_, key, err := l.Key(*values)
	if err != nil {
		for _, err := range joined(err) {
			c.fault(at, "%w", err)
		}
		return false
	}
	*values = key
	return true
}

func (c *compiler) part(r *rule, at place, p Part) keyPart {
	switch {
	case !source.Known(p.Source):
		c.fault(at, "is not a part of a key; use one such as ip or header.X-User")
	case named(p.Source) && p.Name == "":
		c.fault(at, "%v lacks a name; use one such as header.X-User", p.Source)
	case !named(p.Source) && p.Name != "":
		c.fault(at, "%v has no name; leave out %q", p.Source, p.Name)
	case p.Source == source.Header:
		if !wire.Token(p.Name) {
			c.fault(at, "%q is not a header field's name; use one such as X-User", p.Name)
		}
		p.Name = canonical(p.Name)
	case p.Source == source.Cookie && !wire.Token(p.Name):
		c.fault(at, "%q is not a cookie's name; use letters, digits, '-' and '_'", p.Name)
	case p.Source == source.Certificate && !isCertificateName(p.Name):
		c.fault(at, "%q is no name in a certificate; use %s", p, certificateForms)
	case p.Source == source.Func && (p.made == nil || p.made.value == nil):
		c.fault(at, "the function of %q is nil; set one", p.Name)
	case p.Source == source.First || p.Source == source.All:
		return c.madePart(r, at, p)
	case p.Source == source.Descriptor && len(r.Match.Descriptor) > 0 && !r.Match.names(p.Name):
		c.fault(at, "descriptors that the rule matches have no entry %s; add it: descriptor: {%s: \"*\"}", p.Name, p.Name)
	case p.Source == source.Path && strings.Trim(p.Name, "-0123456789") == "":
		if p.segment() == 0 {
			c.fault(at, "%q is not the number of a segment; use path.1 for the first", p.Name)
		}
	case p.Source == source.Path:
		if len(r.Match.Paths) == 0 {
			c.fault(at, "the rule has no path pattern; match a path with the wildcard {%s}", p.Name)
		}
		for i := range r.patterns {
			if r.patterns[i].find(p.Name) < 0 {
				c.fault(at, "the path pattern %s has no wildcard {%s}; add it to the path, or use another part", r.patterns[i].text, p.Name)
				break
			}
		}
	}
	if p.Source != source.IP {
		if p.IPv4Bits != 0 || p.IPv6Bits != 0 {
			c.fault(at, "only an ip has prefix lengths; remove them")
		}
		return keyPart{Part: p}
	}
	bits := [2]int{p.IPv4Bits, p.IPv6Bits}
	finder, ok := c.finders[bits]
	if !ok {
		var err error
		if finder, err = clientip.New(clientip.Options{IPv4Bits: p.IPv4Bits, IPv6Bits: p.IPv6Bits}); err != nil {
			c.fault(at, "%w", err)
			return keyPart{Part: p}
		}
		if c.finders == nil {
			c.finders = make(map[[2]int]*clientip.Finder)
		}
		c.finders[bits] = finder
	}
	return keyPart{Part: p, finder: finder}
}

// madePart compiles a part of First or All.
func (c *compiler) madePart(r *rule, at place, p Part) keyPart {
	if p.made == nil || len(p.made.of) == 0 {
		c.fault(at, "is made of no parts; name those that a request may have")
		return keyPart{Part: p}
	}
	k := keyPart{Part: p}
	for i, of := range p.made.of {
		here := at
		if p.Source == source.First {
			here = at.in("First").item(i)
		}
		part := c.part(r, here, of)
		if slices.ContainsFunc(k.of, func(k keyPart) bool { return k.Part == part.Part }) {
			c.fault(here, "%v is one of them already; leave it out", of)
		}
		k.of = append(k.of, part)
	}
	as := &made{}
	for i := range k.of {
		as.of = append(as.of, k.of[i].Part)
	}
	k.made = as // with names in the form that requests have
	return k
}

// set compiles a list of limits. It returns nil if something is wrong with it.
func (c *compiler) set(r *rule, at place, scope string, limits []Limit) *Set {
	before := len(c.faults)
	var room [2]sluice.Limit // most lists are no longer
	var soft, grace []sluice.Limit
	if len(limits) == 0 {
		c.fault(at, "no limit; use one, such as 100/min")
	}
	unit := sluice.Requests
	hard := room[:0]
	for i, l := range limits {
		here := at.item(i)
		c.limit(here, l.Limit)
		if isBlock(l.Limit) || l.Grace != nil && isBlock(*l.Grace) {
			c.fault(here, "a block is not a limit; use block: in the rule, such as block: 10min after 20 denials/min")
			continue
		}
		if i == 0 {
			unit = l.Unit
		} else if l.Unit != unit {
			c.fault(here, "counts %v but the first limit %v, and a rule has one cost; put it into a rule of its own", l.Unit, unit)
		}
		if r.Shape {
			if problem := Unshapeable(l.Limit, r.MaxWait); problem != "" {
				c.fault(here, "%v %s", l, problem)
			}
		}
		l.Limit = r.Counted(l.Limit)
		if l.Grace == nil {
			hard = append(hard, l.Limit)
			continue
		}
		c.limit(here.in("Grace"), *l.Grace)
		switch {
		case r.Shadow:
			c.fault(here, "a soft limit has no effect in a shadow rule, which denies nothing; leave out one of them")
		case r.Shape:
			c.fault(here, "a soft limit has no effect in a rule with shape, which denies nothing; use a hard limit")
		case r.Lease != nil:
			c.fault(here, "a soft limit cannot be leased, as requests over it are charged to the grace limit; use a hard limit, or leave out the lease")
		case r.When != nil:
			c.fault(here, "a soft limit cannot count by the response; use a hard limit")
		case len(soft) > 0:
			c.fault(here, "a second soft limit; a list has one: make the others hard, or a rule of their own")
		case l.Grace.Unit != l.Unit:
			c.fault(here.in("Grace"), "counts %v but its limit %v", l.Grace.Unit, l.Unit)
		}
		g := r.Counted(*l.Grace)
		if g.Name == "" {
			g.Name = "grace." + g.Filled().Name
			g.Name = g.Name[:min(len(g.Name), 64)]
		}
		soft, grace = append(soft, l.Limit), append(grace, g)
	}
	switch {
	case unit == sluice.Bytes && r.Cost.Of == Fixed:
		c.fault(at, "counts bytes but the rule's cost is a number of requests; set the cost to request-bytes, response-bytes or a header")
	case unit != sluice.Bytes && r.Cost.bytes() && len(limits) > 0:
		c.fault(at, "counts requests but the rule's cost is in bytes; use the quota in bytes, such as 100MB/min")
	}
	if len(c.faults) > before {
		return nil
	}
	hard = append(hard, c.levelBlocks...)
	s := &Set{Soft: -1}
	s.Take = c.plan(at, scope, hard, soft)
	s.All = s.Take
	if len(soft) > 0 {
		s.Over, s.Soft = c.plan(at, scope, hard, grace), len(hard)
		s.All = c.plan(at, scope, hard, soft, grace)
	}
	if len(c.faults) > before {
		return nil
	}
	return s
}

// limit reports each fault of a limit separately.
func (c *compiler) limit(at place, l sluice.Limit) {
	if l == c.sound {
		return
	}
	err := l.Validate()
	if err == nil {
		c.sound = l
		return
	}
	for _, err := range joined(err) {
		if fault, ok := errors.AsType[*sluice.LimitError](err); ok {
			c.fault(at, "%s: %s", fault.Field, fault.Problem)
		} else {
			c.fault(at, "%w", err)
		}
	}
}

// joined returns the errors that err joins.
func joined(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	return []error{err}
}

func (c *compiler) plan(at place, scope string, lists ...[]sluice.Limit) *sluice.Plan {
	limits := lists[0]
	for _, more := range lists[1:] {
		limits = append(slices.Clip(limits), more...)
	}
	p, err := sluice.Compile(scope, limits...)
	if err == nil {
		return p
	}
	names := map[string]bool{}
	for _, l := range limits {
		name := l.Filled().Name
		if names[name] {
			c.fault(at, "two limits have the name %q and would count in one state; give one a name of its own, such as %q", name, "second: "+l.String())
			return nil
		}
		names[name] = true
	}
	c.fault(at, "%w", err)
	return nil
}

func (c *compiler) overrides(r *rule, l *CompiledLevel, at place) {
	if len(l.Overrides) > bounds.MaxOverrides {
		c.fault(at.in("Overrides"), "%d overrides; a level has at most %d", len(l.Overrides), bounds.MaxOverrides)
		return
	}
	if len(l.Overrides) == 0 {
		return
	}
	l.ByOverride, l.ByKey = make([]*Set, len(l.Overrides)), make(map[string]int, len(l.Overrides))
	l.Overrides = slices.Clone(l.Overrides)
	for i := range l.Overrides {
		here := at.in("Overrides").item(i)
		key, s, ok := c.override(r, l, here, &l.Overrides[i])
		if _, taken := l.ByKey[key]; taken && ok {
			c.fault(here.in("Key"), "has an override already; a key has one")
		}
		if l.ByOverride[i] = s; ok {
			l.ByKey[key] = i
		}
	}
}

// override compiles an override of a level. ok is false if its key has a fault.
func (c *compiler) override(r *rule, l *CompiledLevel, here place, o *Override) (key string, s *Set, ok bool) {
	if o.Reason == "" {
		c.fault(here.in("Reason"), "the reason is empty; say why the key has limits of its own")
	}
	if o.Author == "" {
		c.fault(here.in("Author"), "the author is empty; set author")
	}
	s = c.set(r, here.in("Limits"), l.Scope, o.Limits)
	if !c.key(l, here.in("Key"), &o.Key) {
		return "", nil, false
	}
	return encodeKey(o.Key), s, true
}
