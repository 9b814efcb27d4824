// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// locate returns the node of a place in a rule, as policy names it, or the nearest node around
// it.
func locate(rule *yaml.Node, place []policy.Step) *yaml.Node {
	at := rule
	for _, step := range place {
		next := fieldOf(at, step.Field)
		if next == nil && step.Field == "Levels" {
			continue // the rule is its only level
		}
		if platform := document.Child(at, "like"); next == nil && platform != nil && at == rule {
			return platform // it has the parts that the rule lacks
		}
		if next == nil {
			return at
		}
		if step.Key != "" {
			next = cmp.Or(document.Child(next, step.Key), next)
		}
		switch {
		case step.Item > 0 && step.Field == "Limits":
			next = limitItem(next, step.Item-1)
		case step.Item > 0 && (step.Field != "By" || document.Resolved(next).Kind != yaml.MappingNode): // {first: …} is one part
			names := next
			if next = item(names, step.Item-1); step.Field == "Candidates" {
				if of := document.Child(names, next.Value); of != nil && document.Resolved(of).Kind == yaml.MappingNode {
					next = of
				}
			}
		}
		at = next
	}
	return at
}

// otherKeys are the keys that differ from the name of their field in snake case.
var otherKeys = map[string]string{
	"Methods": "method", "Hosts": "host", "Paths": "path", "Except": "except_path", "Headers": "header", "Queries": "query",
	"Networks": "network", "Blocks": "block",
}

// fieldOf returns the value of the key with a field of a policy, or nil. The statuses of When are its
// responses, and ExemptKeys are the keys under exempt.
func fieldOf(n *yaml.Node, field string) *yaml.Node {
	if under, nested := strings.CutPrefix(field, "Exempt"); nested {
		if n = document.Child(n, "exempt"); n == nil {
			return nil
		}
		return document.Child(n, strings.ToLower(under))
	}
	if field == "Status" {
		if responses := document.Child(n, "response"); responses != nil {
			return responses
		}
	}
	return document.Child(n, keyOf(field))
}

func keyOf(field string) string {
	return cmp.Or(otherKeys[field], strings.ReplaceAll(limitWord(field), "-", "_"))
}

// item returns the i-th item of a list or the i-th key of a mapping. Any other node is its own
// only item.
func item(n *yaml.Node, i int) *yaml.Node {
	r := document.Resolved(n)
	switch {
	case r.Kind == yaml.MappingNode && 2*i < len(r.Content):
		return r.Content[2*i]
	case r.Kind == yaml.SequenceNode && i < len(r.Content):
		return r.Content[i]
	}
	return n
}

// limitItem returns the node of the i-th limit of a list.
func limitItem(n *yaml.Node, i int) *yaml.Node {
	r := document.Resolved(n)
	switch {
	case document.Child(r, "like") != nil:
		return n
	case r.Kind != yaml.SequenceNode:
		return item(n, i)
	}
	for _, one := range r.Content {
		if i -= limitsAt(one); i < 0 {
			return one
		}
	}
	return n
}

// neverAdmits finds limits of a rule, its tiers and its overrides that no request of the rule
// can ever fit.
func (d *decoder) neverAdmits(n *yaml.Node, r *policy.Rule) {
	check := func(set []policy.Limit, at ...policy.Step) {
		for i, l := range set {
			if problem := r.NeverAdmits(l); problem != "" {
				at[len(at)-1].Item = i + 1
				d.Fault(locate(n, at), "%s", problem)
			}
		}
	}
	for i := range r.Levels {
		l, level := &r.Levels[i], policy.Step{Field: "Levels", Item: i + 1}
		check(l.Limits, level, policy.Step{Field: "Limits"})
		if l.Tiers != nil {
			for _, tier := range slices.Sorted(maps.Keys(l.Tiers.Limits)) {
				check(l.Tiers.Limits[tier], level, policy.Step{Field: "Tiers"}, policy.Step{Field: "Limits", Key: tier})
			}
		}
		for k := range l.Overrides {
			check(l.Overrides[k].Limits, level, policy.Step{Field: "Overrides", Item: k + 1}, policy.Step{Field: "Limits"})
		}
	}
}
