// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package keys finds the keys that an operator names by the values of their parts, and the limits
// that they have.
package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// Max is the most keys of one call.
const Max = 256

// Key names a key by the values of its parts in a rule, such as "ip" and "header.X-User".
// It means the key of every level of every rule that has these parts and no others.
// Rule and Level, if not empty, select one.
type Key struct {
	Rule  string            `json:"rule,omitempty"`
	Level string            `json:"level,omitempty"`
	Parts map[string]string `json:"parts"`
}

// Overrides are overrides beside those of the rules.
type Overrides interface {
	// Of returns the override that is active for a key, and its limits; nil if there is none.
	Of(t *Target, now time.Time) (*policy.Override, *policy.Set)
}

// Target is a key of a level.
type Target struct {
	Rule      *policy.Rule
	Level     *policy.CompiledLevel
	Values    []string
	Key       string // of the values
	Tier      string
	HasTier   bool      // the query names the tier, which may be empty
	Overrides Overrides // nil: there are none but those of the rules
}

// Override returns the active override of the key at a moment with its limits, nil if there is
// none.
func (t *Target) Override(now time.Time) (*policy.Override, *policy.Set) {
	if t.Overrides != nil {
		if o, s := t.Overrides.Of(t, now); s != nil {
			return o, s
		}
	}
	if i, ok := t.Level.ByKey[t.Key]; ok {
		if o := &t.Level.Overrides[i]; o.Expires.IsZero() || now.Before(o.Expires) {
			return o, t.Level.ByOverride[i]
		}
	}
	return nil, nil
}

// Set returns the limits of the key under a tier at a moment, nil if it has none.
func (t *Target) Set(tier string, now time.Time) *policy.Set {
	if _, s := t.Override(now); s != nil {
		return s
	}
	if s, ok := t.Level.ByTier[tier]; ok && tier != "" {
		return s
	}
	return t.Level.Base
}

// Charge returns the charge of the key under a set of limits, at a cost of 1.
func (t *Target) Charge(s *policy.Set) sluice.Charge {
	return sluice.Charge{Plan: s.All, Key: t.Key, Cost: 1}
}

// Tiers returns the names of the tiers that the key may have. The first is empty: the
// limits without a tier. If the query names a tier, it is the only one. If an override is
// active there is one, because its limits replace those of every tier.
func (t *Target) Tiers(now time.Time) []string {
	switch {
	case t.HasTier:
		return []string{t.Tier}
	case t.Level.Tiers == nil:
		return []string{""}
	}
	if o, _ := t.Override(now); o != nil {
		return []string{""}
	}
	tiers := slices.AppendSeq(slices.Clone(t.Level.Tiers.Unlimited), maps.Keys(t.Level.Tiers.Limits))
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
			part.Name = textproto.CanonicalMIMEHeaderKey(part.Name)
		}
		all = append(all, given{part: part, value: k.Parts[text]})
	}
	return all, errors.Join(faults...)
}

// Targets returns the keys that k means under a policy and these overrides, which may be nil, and
// whether there are more than [Max]. It is an error if there are none.
func (k *Key) Targets(p *policy.Policy, o Overrides) (targets []Target, omitted bool, err error) {
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
			if len(targets) == Max {
				return targets, true, nil
			}
			t.Overrides = o
			targets = append(targets, t)
		}
	}
	switch {
	case !found:
		return nil, false, fmt.Errorf("there is no rule %q; sluice status lists the rules", k.Rule)
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

// One returns the only key that k names.
func (k *Key) One(p *policy.Policy, o Overrides) (Target, error) {
	if k.Rule == "" {
		return Target{}, errors.New("rule is missing; set the name of a rule")
	}
	targets, _, err := k.Targets(p, o)
	if err != nil {
		return Target{}, err
	}
	if len(targets) > 1 {
		return Target{}, fmt.Errorf("rule %q has several levels with such a key; name one", k.Rule)
	}
	return targets[0], nil
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
func targetOf(r *policy.Rule, l *policy.CompiledLevel, parts []given) (t Target, ok bool, err error) {
	t = Target{Rule: r, Level: l}
	var used []int
	for _, need := range l.By {
		i, value := valueOf(need, parts)
		if i < 0 {
			return t, false, nil
		}
		used = append(used, i)
		t.Values = append(t.Values, value)
	}
	if len(l.By) > 0 {
		if t.Key, t.Values, err = l.Key(t.Values); err != nil {
			return t, false, err
		}
	}
	if l.Tiers != nil {
		if i := slices.IndexFunc(parts, func(g given) bool { return same(g.part, l.Tiers.By) }); i >= 0 {
			t.HasTier = true
			if t.Tier = parts[i].value; t.Tier != "" {
				if t.Tier, err = l.Tiers.By.Value(t.Tier); err != nil {
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

// PartsOf returns the parts of an encoded key, by their names.
func PartsOf(l *policy.Level, key string) map[string]string {
	values := []string{key}
	if len(l.By) > 1 {
		values = strings.Split(key, "|")
		for i := range values {
			values[i] = unescape.Replace(values[i])
		}
	}
	return Named(l, values)
}

// Named returns the values of a key by the names of its parts.
func Named(l *policy.Level, values []string) map[string]string {
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

// Level returns a level of a rule, nil if there is none.
func Level(p *policy.Policy, rule, level string) *policy.CompiledLevel {
	if i, ok := p.RuleOf(rule); ok && p.Rules()[i].Name == rule {
		for j := range p.Levels(i) {
			if l := &p.Levels(i)[j]; l.Name == level {
				return l
			}
		}
	}
	return nil
}

// Has reports whether a level has a key that is written as values. A text that means another
// key now would give the override to the wrong key.
func Has(l *policy.CompiledLevel, values []string) bool {
	_, written, err := l.Key(values)
	return err == nil && slices.Equal(written, values)
}

// Touched returns the charges of the keys whose spent units a change of another node has
// altered, from the entry of that node.
func Touched(p *policy.Policy, entry []byte, now time.Time) (charges []sluice.Charge) {
	var e struct {
		Action string
		Detail struct {
			Keys []Key
			Key  Key
		}
	}
	if err := json.Unmarshal(entry, &e); err != nil || e.Action != "reset" && e.Action != "add" {
		return nil
	}
	for _, k := range append(e.Detail.Keys, e.Detail.Key) {
		if k.Rule == "" {
			continue
		}
		t, err := k.One(p, nil)
		if err != nil {
			continue // this node's rules have no such key, so it remembers nothing
		}
		for _, tier := range t.Tiers(now) {
			if s := t.Set(tier, now); s != nil { // all tiers have one scope
				charges = append(charges, t.Charge(s))
				break
			}
		}
	}
	return charges
}
