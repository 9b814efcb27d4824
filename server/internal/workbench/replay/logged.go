// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// Columns returns rules whose key, or cost, comes from columns of the log: see
// arrivals.Options. The logged name of a client serves as its address; a log without clients
// has one budget.
func Columns(p *policy.Policy, key, cost bool) (*policy.Policy, error) {
	finder, err := clientip.New(clientip.Options{})
	if err != nil {
		return nil, err
	}
	return rewrite(p, func(r *policy.Rule, l *policy.Level) {
		if key {
			l.By = []policy.Part{policy.Func("key", func(a policy.Attributes) (string, error) { return arrivalOf(a).Key, nil })}
		} else if slices.Equal(l.By, []policy.Part{policy.IP()}) {
			l.By = []policy.Part{policy.Func("ip", func(a policy.Attributes) (string, error) {
				switch of := arrivalOf(a); {
				case of.Name == "":
					a.Client() // notes that the log has none
					return "-", nil
				case of.Client.Is4() || !of.Client.IsValid():
					return of.Name, nil
				default:
					return finder.Group(of.Client), nil
				}
			})}
		}
		if cost {
			r.Cost = policy.Cost{Func: &policy.CostFunc{Before: func(a policy.Attributes) (int64, error) { return arrivalOf(a).Cost, nil }}}
		}
	})
}

// OfDecisions returns rules for a decision log. If the log lacks what a rule needs to match,
// key, price or tier a request, such as a header, the rule uses the entry of the rule of the
// same name; it does not apply to a request without that entry.
func OfDecisions(p *policy.Policy) (*policy.Policy, error) {
	i, all := 0, slices.Clone(p.Rules())
	return rewrite(p, func(r *policy.Rule, l *policy.Level) {
		for all[i].Name != r.Name {
			i++
		}
		described := len(all[i].Match.Descriptor)+len(all[i].Match.ExceptDescriptor) > 0
		hidden := described || len(all[i].Match.Headers)+len(all[i].Match.Queries) > 0
		r.Match.Headers, r.Match.Queries, r.Match.Descriptor, r.Match.ExceptDescriptor = nil, nil, nil, nil
		if described { // its entry in the log stands for the descriptor
			r.Match.Descriptor = []policy.Field{{Name: r.Name}}
		}
		if r.Cost.Of == policy.RequestHeader {
			r.Cost = policy.Cost{Func: &policy.CostFunc{Before: func(a policy.Attributes) (int64, error) { return recordOf(a, r.Name, "").Cost, nil }}}
		}
		if level := l.Name; hidden || slices.ContainsFunc(l.By, unlogged) {
			l.By, l.Missing, l.ExemptKeys = []policy.Part{policy.Func("recorded key", func(a policy.Attributes) (string, error) { return recordedKey(a, r.Name, level) })}, policy.Skip, nil
			l.Overrides = slices.Clone(l.Overrides)
			for j := range l.Overrides { // of plain keys
				l.Overrides[j].Key = []string{strings.Join(l.Overrides[j].Key, "|")}
			}
		}
		if l.Tiers != nil && unlogged(l.Tiers.By) {
			tiers, level := *l.Tiers, l.Name
			tiers.By = policy.Func("recorded tier", func(a policy.Attributes) (string, error) { return recordOf(a, r.Name, level).Tier, nil })
			l.Tiers = &tiers
		}
	})
}

// unlogged reports whether the decision log lacks a part.
func unlogged(p policy.Part) bool {
	if parts := p.Parts(); len(parts) != 1 || parts[0].Source != p.Source {
		return slices.ContainsFunc(parts, unlogged)
	}
	return !slices.Contains([]string{source.IP, source.Host, source.Method, source.Path}, p.Source)
}

// recordOf returns the entry of a rule's level in the log.
func recordOf(a policy.Attributes, rule, level string) (e arrivals.RecordedRule) {
	if record := arrivalOf(a).Record; record != nil {
		for _, e := range record.Rules {
			if e.Rule == rule && (e.Level == level || level == "" || e.Level == "") && !strings.HasPrefix(e.Mode, "candidate") {
				return e
			}
		}
	}
	return e
}

// recordedKey returns the key that the log has, and a dash for the key of a budget for all.
func recordedKey(a policy.Attributes, rule, level string) (string, error) {
	switch e := recordOf(a, rule, level); {
	case e.Verdict == "refused":
		return "", &policy.PartError{Problem: "was refused"}
	case e.Rule == "" || e.Mode == "unlimited":
		return "", nil
	default:
		return cmp.Or(e.Key, e.Hash, "-"), nil
	}
}

// rewrite compiles changed copies of all rules.
func rewrite(p *policy.Policy, change func(*policy.Rule, *policy.Level)) (*policy.Policy, error) {
	rules := slices.Clone(p.Rules())
	for i := range rules {
		rules[i].Levels = slices.Clone(rules[i].Levels)
		for j := range rules[i].Levels {
			change(&rules[i], &rules[i].Levels[j])
		}
	}
	return policy.Compile(rules)
}

// arrivalOf returns the arrival behind attributes of this package.
func arrivalOf(a policy.Attributes) *arrivals.Arrival {
	if of, ok := a.(*attributes); ok {
		return of.Arrival
	}
	return new(arrivals.Arrival)
}
