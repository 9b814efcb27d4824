// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// answer reads the answer that a rule gives in place of the default one.
func (d *decoder) answer(n *yaml.Node) *policy.Answer {
	a := &policy.Answer{}
	before := d.Count()
	d.Mapping(n, "answer", append(d.answerFields(a),
		document.Key("fields", "Header fields of every response.", func(n *yaml.Node) { d.texted(n, "fields", &a.Fields) }),
		document.Key("limits", "Answers by the name of the limit that denied.", func(n *yaml.Node) {
			a.Limits = map[string]policy.Answer{}
			d.Pairs(n, "limits", 64, func(key, value *yaml.Node) {
				var of policy.Answer
				d.Mapping(value, "the answer of a limit", d.answerFields(&of)...)
				a.Limits[key.Value] = of
			})
		}),
	)...)
	if d.Count() == before && len(document.Resolved(n).Content) == 0 {
		d.Fault(n, "answer is empty; set status, body with content_type, fields or denied")
	}
	return a
}

// answerFields returns the keys about denials.
func (d *decoder) answerFields(a *policy.Answer) []field {
	var status int64
	number := d.Number("status", "Status of a denial.", 200, 599, &status)
	return []field{
		document.Key("status", "Status of a denial.", func(n *yaml.Node) {
			number.Read(n)
			a.Status = int(status)
		}),
		d.Word("content_type", "Content-Type of the body.", &a.ContentType),
		d.Word("body", "Body of a denial; {…} are placeholders, see docs/configuration.md.", &a.Body),
		document.Key("denied", "Header fields of a denial.", func(n *yaml.Node) { d.texted(n, "denied", &a.Denied) }),
	}
}

// texted reads header fields with a text each.
func (d *decoder) texted(n *yaml.Node, what string, into *[]policy.AnswerField) {
	d.Pairs(n, what, 64, func(key, value *yaml.Node) {
		s, _ := d.Text(value, what+" "+document.Shorten(key.Value)) // a faulty field keeps its place
		*into = append(*into, policy.AnswerField{Name: key.Value, Value: s})
	})
}

// blocks reads the blocks of a level: "10min after 20 denials/min", or a list of these.
func (d *decoder) blocks(n *yaml.Node, l *policy.Level) {
	d.Each(n, "block", func(n *yaml.Node, s string) {
		b, err := policy.ParseBlock(s)
		if err == nil {
			l.Blocks = append(l.Blocks, b)
			return
		}
		if place, ok := errors.AsType[*sluice.TextError](err); ok {
			d.FaultAt(n, place.Offset, "block %q: %s", document.Shorten(s), place.Problem)
			return
		}
		for _, err := range flatten(err) {
			if fault, ok := errors.AsType[*sluice.LimitError](err); ok {
				d.FaultAt(n, 0, "block %q: %s: %s", document.Shorten(s), limitWord(fault.Field), fault.Problem)
			}
		}
	})
}

// lease reads true, false, or {ttl: 500ms, units: 100, nodes: 8}.
func (d *decoder) lease(n *yaml.Node) *sluice.LeaseTerms {
	var on bool
	var nodes int64
	t := &sluice.LeaseTerms{}
	mapped := d.MappingOr(n, "lease", d.Flag("lease", "", &on).Read,
		d.Duration("ttl", "How long a lease holds (default 1s).", time.Microsecond, maxLeaseTTL, &t.TTL),
		d.Number("units", "Units of a lease (default: by the limit and the rate).", 1, sluice.MaxQuota, &t.Units),
		d.Number("nodes", "Number of nodes that lease (default: nodes of the file, if set).", 1, 1<<20, &nodes),
	)
	if !mapped && !on {
		return nil
	}
	t.Nodes = int(nodes)
	return t
}
