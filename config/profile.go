// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/profile"
)

// profile reads the name of a profile.
func (d *decoder) profile(n *yaml.Node) (p profile.Profile, ok bool) {
	if document.Resolved(n).Kind == yaml.SequenceNode {
		d.Fault(n, "like is one platform; use the limits of several as limits: [{like: nginx}, {like: stripe}]")
		return p, false
	}
	name, ok := d.Text(n, "like")
	if !ok {
		return p, false
	}
	if p, ok = profile.Get(name); !ok {
		meant := "see sluice profiles for those there are"
		if names := profile.Meant(name); len(names) > 0 {
			meant = "use " + strings.Join(names, " or ")
		}
		d.Fault(n, "no platform is known as %q; %s", document.Shorten(name), meant)
		return p, false
	}
	if !slices.Contains(d.profiles, name) {
		d.profiles = append(d.profiles, name)
	}
	return p, true
}

// likeLimits reads the limits of a profile: {like: nginx}.
func (d *decoder) likeLimits(n *yaml.Node) (limits []policy.Limit) {
	p, _ := d.profile(n)
	for _, l := range p.Limits {
		limits = append(limits, policy.Limit{Limit: l})
	}
	return limits
}

// asProfile fills in the parts that a rule lacks from its platform's profile.
func (r *ruleReader) asProfile(rule *yaml.Node) {
	switch {
	case r.platform == nil:
		return
	case r.levels != nil:
		r.Fault(r.platform, "like is not for a rule with levels; move it into a level, as limits: {like: %s}", document.Shorten(r.platform.Value))
		return
	case document.Child(rule, "limits") != nil:
		r.Fault(r.platform, "like excludes limits; put all of them under limits, as limits: [{like: %s}, 1000/day]", document.Shorten(r.platform.Value))
		return
	}
	p, ok := r.profile(r.platform)
	if !ok {
		return
	}
	for _, l := range p.Limits {
		r.flat.Limits = append(r.flat.Limits, policy.Limit{Limit: l})
	}
	if !r.rule.Shape {
		r.answerAs(p, rule)
	}
	if w := r.rule.When; document.Child(rule, "max_wait") == nil && (w == nil || w.ChargeFirst) {
		r.rule.MaxWait = p.MaxWait
	}
	if document.Child(rule, "in_flight") == nil && p.InFlight > 0 {
		r.flat.InFlight = &sluice.SlotLimit{Cap: p.InFlight}
	}
}

// answerAs adds the status and the answer of a platform where the rule has none of its own. A
// body comes with its type, and with the bodies of single limits.
func (r *ruleReader) answerAs(p profile.Profile, rule *yaml.Node) {
	own := r.rule.Answer
	if document.Child(rule, "status") == nil && (own == nil || own.Status == 0) {
		r.status = int64(p.Status)
	}
	if p.Answer == "" {
		return
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(p.Answer), &n); err != nil {
		r.Fault(r.platform, "the answer of %s: %v", p.Name, err)
		return
	}
	a := r.answer(n.Content[0])
	if own != nil {
		a.Status = own.Status
		if own.Body != "" || own.ContentType != "" {
			a.Body, a.ContentType, a.Limits = own.Body, own.ContentType, nil
		}
		if own.Limits != nil {
			a.Limits = own.Limits
		}
		if own.Fields != nil {
			a.Fields = own.Fields
		}
		if own.Denied != nil {
			a.Denied = own.Denied
		}
	}
	r.rule.Answer = a
}

// limitsAt returns the number of limits in an item of a list of limits.
func limitsAt(n *yaml.Node) int {
	if name := document.Child(n, "like"); name != nil {
		if p, ok := profile.Get(document.Resolved(name).Value); ok {
			return len(p.Limits)
		}
	}
	return 1
}

// profileNames returns the platforms for like.
func profileNames() (names []string) {
	for _, p := range profile.All() {
		names = append(names, p.Name)
	}
	return names
}
