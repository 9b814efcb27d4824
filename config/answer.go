// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/policy"
)

// answer reads the answer that a rule gives in the place of the default one.
func (d *decoder) answer(n *yaml.Node) *policy.Answer {
	a := &policy.Answer{}
	before := len(d.faults)
	d.mapping(n, "answer", append(d.answerFields(a),
		field{"fields", func(n *yaml.Node) { d.texted(n, "fields", &a.Fields) }},
		field{"limits", func(n *yaml.Node) {
			a.Limits = map[string]policy.Answer{}
			d.pairs(n, "limits", 64, func(key, value *yaml.Node) {
				var of policy.Answer
				d.mapping(value, "the answer of a limit", d.answerFields(&of)...)
				a.Limits[key.Value] = of
			})
		}},
	)...)
	if len(d.faults) == before && len(resolved(n).Content) == 0 {
		d.fault(n, "answer is empty; set status, body with content_type, fields or denied")
	}
	return a
}

// answerFields returns the keys about denials.
func (d *decoder) answerFields(a *policy.Answer) []field {
	var status int64
	number := d.number("status", 200, 599, &status)
	return []field{
		{"status", func(n *yaml.Node) {
			number.read(n)
			a.Status = int(status)
		}},
		d.word("content_type", &a.ContentType),
		d.word("body", &a.Body),
		{"denied", func(n *yaml.Node) { d.texted(n, "denied", &a.Denied) }},
	}
}

// texted reads header fields with a text each.
func (d *decoder) texted(n *yaml.Node, what string, into *[]policy.AnswerField) {
	d.pairs(n, what, 64, func(key, value *yaml.Node) {
		s, _ := d.text(value, what+" "+shorten(key.Value)) // a faulty field keeps its place
		*into = append(*into, policy.AnswerField{Name: key.Value, Value: s})
	})
}
