// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// mostTargets is the most keys of one call.
const mostTargets = 256

// Key names a key by the values of its parts in a rule, such as "ip" and "header.X-User".
// It means the key of every level of every rule that has these parts and no others.
// Rule and Level, if not empty, select one.
type Key struct {
	Rule  string            `json:"rule,omitempty"`
	Level string            `json:"level,omitempty"`
	Parts map[string]string `json:"parts"`
}

// target is a key of a level.
type target struct {
	rule      *policy.Rule
	level     *policy.CompiledLevel
	values    []string
	key       string // of the values
	tier      string
	hasTier   bool       // the query names the tier, which may be empty
	overrides *Overrides // nil: there are none but those of the rules
}

// override returns the active override of the key at a moment with its limits, nil if there is
// none.
func (t *target) override(now time.Time) (*policy.Override, *policy.Set) {
	if o, s := t.overrides.of(t, now); s != nil {
		return o, s
	}
	if i, ok := t.level.ByKey[t.key]; ok {
		if o := &t.level.Overrides[i]; o.Expires.IsZero() || now.Before(o.Expires) {
			return o, t.level.ByOverride[i]
		}
	}
	return nil, nil
}

// set returns the limits of the key under a tier at a moment, nil if it has none.
func (t *target) set(tier string, now time.Time) *policy.Set {
	if _, s := t.override(now); s != nil {
		return s
	}
	if s, ok := t.level.ByTier[tier]; ok && tier != "" {
		return s
	}
	return t.level.Base
}

// charge returns the charge of the key under a set of limits, at a cost of 1.
func (t *target) charge(s *policy.Set) sluice.Charge {
	return sluice.Charge{Plan: s.All, Key: t.key, Cost: 1}
}

// tiers returns the names of the tiers that the key may have. The first is empty: the
// limits without a tier. If the query names a tier, it is the only one. If an override is
// active there is one, because its limits replace those of every tier.
func (t *target) tiers(now time.Time) []string {
	switch {
	case t.hasTier:
		return []string{t.tier}
	case t.level.Tiers == nil:
		return []string{""}
	}
	if o, _ := t.override(now); o != nil {
		return []string{""}
	}
	tiers := slices.AppendSeq(slices.Clone(t.level.Tiers.Unlimited), maps.Keys(t.level.Tiers.Limits))
	slices.Sort(tiers)
	return slices.Concat([]string{""}, tiers)
}

// given is a part with its value.
type given struct {
	part  policy.Part
	value string
	used  bool
}

func (k *Key) given() ([]given, error) {
	var all []given
	var faults []error
	for _, text := range slices.Sorted(maps.Keys(k.Parts)) {
		part, err := policy.ParsePart(text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if part.Source == source.Header {
			part.Name = http.CanonicalHeaderKey(part.Name)
		}
		all = append(all, given{part: part, value: k.Parts[text]})
	}
	return all, errors.Join(faults...)
}

// targets returns the keys that k means. It is an error if there are none.
func (k *Key) targets(p *policy.Policy) (targets []target, omitted bool, err error) {
	parts, err := k.given()
	if err != nil {
		return nil, false, err
	}
	found := k.Rule == ""
	var never error // why a level has no such key
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		if k.Rule != "" && r.Name != k.Rule {
			continue
		}
		found = true
		levels := p.Levels(i)
		for j := range levels {
			l := &levels[j]
			if k.Level != "" && l.Name != k.Level || len(l.By) == 0 && k.Rule == "" {
				continue
			}
			t, ok, err := targetOf(r, l, parts)
			if err != nil && never == nil {
				never = fmt.Errorf("rule %q: %w", r.Name, err)
			}
			if err != nil || !ok {
				continue // the value may be valid only for another rule
			}
			if len(targets) == mostTargets {
				return targets, true, nil
			}
			targets = append(targets, t)
		}
	}
	switch {
	case !found:
		return nil, false, fmt.Errorf("there is no rule %q; see sluice status for those that are", k.Rule)
	case len(targets) == 0 && never != nil:
		return nil, false, never
	case len(targets) == 0:
		return nil, false, fmt.Errorf("no rule has a key of %s; %s", strings.Join(slices.Sorted(maps.Keys(k.Parts)), " and "), needs(p, k.Rule))
	}
	for _, g := range parts {
		if !g.used && never != nil {
			return nil, false, never
		}
		if !g.used {
			return nil, false, fmt.Errorf("no key is made of %v; %s", g.part, needs(p, k.Rule))
		}
	}
	return targets, false, nil
}

// needs describes the parts of keys.
func needs(p *policy.Policy, rule string) string {
	const most = 8
	var all []string
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		if rule != "" && r.Name != rule {
			continue
		}
		for _, l := range r.Levels {
			parts := make([]string, len(l.By))
			for j, part := range l.By {
				parts[j] = choices(part)
			}
			if text := strings.Join(parts, " "); text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	if len(all) == 0 {
		return "no rule has keys"
	}
	if len(all) > most {
		all = append(all[:most], "…")
	}
	return "use " + strings.Join(all, ", or ")
}

// targetOf returns the key of a level, if all of its parts are given.
func targetOf(r *policy.Rule, l *policy.CompiledLevel, parts []given) (t target, ok bool, err error) {
	t = target{rule: r, level: l}
	var used []int
	for _, need := range l.By {
		i, value := valueOf(need, parts)
		if i < 0 {
			return t, false, nil
		}
		used = append(used, i)
		t.values = append(t.values, value)
	}
	if len(l.By) > 0 {
		if t.key, t.values, err = l.Key(t.values); err != nil {
			return t, false, err
		}
	}
	if l.Tiers != nil {
		if i := slices.IndexFunc(parts, func(g given) bool { return same(g.part, l.Tiers.By) }); i >= 0 {
			t.hasTier = true
			if t.tier = parts[i].value; t.tier != "" {
				if t.tier, err = l.Tiers.By.Value(t.tier); err != nil {
					return t, false, err
				}
			}
			used = append(used, i)
		}
	}
	for _, i := range used {
		parts[i].used = true
	}
	return t, true, nil
}

// valueOf returns the index of the given part that is a part of a key, -1 if none is, and
// its value. For First it is the first alternative that is given.
func valueOf(need policy.Part, parts []given) (at int, value string) {
	if need.Source != source.First {
		if at = slices.IndexFunc(parts, func(g given) bool { return same(g.part, need) }); at >= 0 {
			value = parts[at].value
		}
		return at, value
	}
	for _, p := range need.Parts() {
		switch at, value = valueOf(p, parts); {
		case at < 0:
		case value == "":
			return at, ""
		default:
			return at, p.String() + "=" + value
		}
	}
	return -1, ""
}

// choices describes how to give a part of a key.
func choices(p policy.Part) string {
	var all []string
	for _, of := range p.Parts() {
		all = append(all, of.String()+"=…")
	}
	return strings.Join(all, " or ")
}

func same(have, need policy.Part) bool {
	return have.Source == need.Source && have.Name == need.Name
}

// partsOf returns the parts of an encoded key, by their names.
func partsOf(l *policy.Level, key string) map[string]string {
	values := []string{key}
	if len(l.By) > 1 {
		values = strings.Split(key, "|")
		for i := range values {
			values[i] = unescape.Replace(values[i])
		}
	}
	return named(l, values)
}

// named returns the values of a key by the names of its parts.
func named(l *policy.Level, values []string) map[string]string {
	parts := make(map[string]string, len(l.By))
	for i, p := range l.By {
		if i < len(values) {
			p, value := p.Of(values[i])
			parts[p.String()] = value
		}
	}
	return parts
}

var unescape = strings.NewReplacer("%25", "%", "%7C", "|")
