// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/policy"
)

// yamlNames maps the fields of policy.Rule to keys.
var yamlNames = map[string]string{
	"Name": "name", "Match": "match", "Methods": "method", "Hosts": "host", "Paths": "path", "Except": "except_path",
	"Headers": "header", "Queries": "query", "Networks": "network", "Cost": "cost", "When": "when",
	"Failure": "failure", "Shape": "shape", "Lease": "lease", "MaxWait": "max_wait", "By": "by", "Missing": "missing",
	"Limits": "limits", "InFlight": "in_flight", "Tiers": "tiers", "Overrides": "overrides", "Candidates": "candidates",
	"Key": "key", "Reason": "reason", "Author": "author", "First": "first", "Blocks": "block", "RetryJitter": "retry_jitter",
	"Answer": "answer", "ContentType": "content_type", "Body": "body", "Fields": "fields", "Denied": "denied",
}

// locate returns the node of a place in a rule, as policy names it, or the nearest node around
// it.
func locate(rule *yaml.Node, place []policy.Step) *yaml.Node {
	at := rule
	for _, step := range place {
		var next *yaml.Node
		switch step.Field {
		case "Levels":
			if next = child(at, "levels"); next == nil {
				continue // the rule is its only level
			}
		case "Status":
			if next = child(at, "response"); next == nil { // a field of When
				next = child(at, "status")
			}
		case "ExemptNetworks", "ExemptKeys":
			if next = child(at, "exempt"); next != nil {
				next = child(next, strings.ToLower(strings.TrimPrefix(step.Field, "Exempt")))
			}
		default:
			next = child(at, yamlNames[step.Field])
		}
		if platform := child(at, "like"); next == nil && platform != nil && at == rule {
			return platform // it has all that the rule leaves out
		}
		if next == nil {
			return at
		}
		if step.Key != "" {
			next = cmp.Or(child(next, step.Key), next)
		}
		switch {
		case step.Item > 0 && step.Field == "Limits":
			next = limitItem(next, step.Item-1)
		case step.Item > 0 && (step.Field != "By" || resolved(next).Kind != yaml.MappingNode): // {first: …} is one part
			names := next
			if next = item(names, step.Item-1); step.Field == "Candidates" {
				if of := child(names, next.Value); of != nil && resolved(of).Kind == yaml.MappingNode {
					next = of
				}
			}
		}
		at = next
	}
	return at
}

// child returns the value of a mapping's key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	n = resolved(n)
	if n.Kind != yaml.MappingNode || key == "" {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// item returns the i-th item of a list or the i-th key of a mapping. Any other node is its own
// only item.
func item(n *yaml.Node, i int) *yaml.Node {
	r := resolved(n)
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
	r := resolved(n)
	switch {
	case child(r, "like") != nil:
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

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
