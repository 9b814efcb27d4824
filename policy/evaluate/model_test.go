// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/policy"
)

// counter is a fixed window of a minute or a day, as anyone would write it.
type counter struct {
	quota, used int64
	window      time.Duration
	start       time.Time
}

func (c *counter) left(now time.Time) int64 {
	if start := now.Truncate(c.window); start != c.start {
		c.start, c.used = start, 0
	}
	return c.quota - c.used
}

// modelRule is a rule of one key with a hard limit, and perhaps a soft one.
type modelRule struct {
	rule       policy.Rule
	kind       string // plain, soft, counted, held, shadow
	hard, soft int64
	grace      int64
	cost       int64
	byUser     bool
	states     map[string]*[3]counter // hard, soft, grace
	onlyFor    string                 // path
}

func (m *modelRule) state(user string) *[3]counter {
	key := ""
	if m.byUser {
		key = user
	}
	if m.states[key] == nil {
		m.states[key] = &[3]counter{
			{quota: m.hard, window: time.Minute}, {quota: m.soft, window: time.Minute}, {quota: m.grace, window: 24 * time.Hour},
		}
	}
	return m.states[key]
}

// unseen is the status of a response that was not seen: one that no rule counts.
const unseen = 502

var modelKinds = []string{"plain", "soft", "counted", "held", "shadow"}

func drawRule(t *rapid.T, i int) *modelRule {
	small := rapid.Int64Range(1, 6)
	m := &modelRule{
		kind: rapid.SampledFrom(modelKinds).Draw(t, "kind"), hard: small.Draw(t, "hard"), soft: small.Draw(t, "soft"),
		grace: small.Draw(t, "grace"), cost: rapid.Int64Range(1, 2).Draw(t, "cost"), byUser: rapid.Bool().Draw(t, "by user"),
		onlyFor: rapid.SampledFrom([]string{"", "/a", "/b"}).Draw(t, "path"), states: map[string]*[3]counter{},
	}
	texts := []string{fmt.Sprintf("hard: %d/min fixed-window", m.hard)}
	if m.kind == "soft" {
		texts = append(texts, fmt.Sprintf("soft soft: %d/min fixed-window grace grace: %d/day fixed-window", m.soft, m.grace))
	}
	m.rule = one(fmt.Sprintf("rule%d", i), nil, texts...)
	if m.byUser {
		m.rule.Levels[0].By = by(policy.Header("X-User"))
	}
	if m.onlyFor != "" {
		m.rule.Match.Paths = []string{m.onlyFor}
	}
	m.rule.Cost.Units = m.cost
	switch m.kind {
	case "counted", "held":
		m.rule.When = &policy.When{Status: []policy.Status{policy.Class(4)}, ChargeFirst: m.kind == "held"}
	case "shadow":
		m.rule.Shadow = true
	}
	return m
}

// A policy decides like a plain model of its rules, which applies one rule after another.
func TestDecidesAsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var rules []policy.Rule
		var models []*modelRule
		for i := range rapid.IntRange(1, 6).Draw(rt, "rules") {
			m := drawRule(rt, i)
			models, rules = append(models, m), append(rules, m.rule)
		}
		w := newWorld(t, rules...)
		start := w.now
		for i := range rapid.IntRange(1, 60).Draw(rt, "requests") {
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 20 * time.Second, time.Minute}).Draw(rt, "pause"))
			name := rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "user")
			path := rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(rt, "path")
			status := rapid.SampledFrom([]int{200, 404, unseen}).Draw(rt, "status")
			p := userRequest(name)
			p.Path, p.Client = path, netip.MustParseAddr("192.0.2.1")

			want, warned := modelDecide(models, name, path, status, w.now)
			v := w.decide(p.Attributes())
			if v.Err != nil || v.Refused != nil {
				rt.Fatalf("error %v, refused %v", v.Err, v.Refused)
			}
			var warnings []string
			for warning := range v.Warnings() {
				warnings = append(warnings, warning.Rule.Name)
			}
			if !v.Allowed {
				warnings = nil
			}
			if v.Allowed != want || !slices.Equal(warnings, warned) {
				rt.Fatalf("request %d, %s %s after %v: allowed %v with warnings %v, want %v with %v", i+1, name, path, w.now.Sub(start), v.Allowed, warnings, want, warned)
			}
			if o, ok := v.Binding(nil); !v.Allowed && (!ok || o.Allowed || o.RetryAfter != v.Decision.RetryAfter || o.RetryAfter <= 0) {
				rt.Fatalf("request %d is denied by %+v", i+1, o)
			}
			w.settle(v, policy.Response{Status: status, Unseen: status == unseen})
		}
		for _, m := range models {
			for key, s := range m.states {
				values := []string{}
				if m.byUser {
					values = append(values, key)
				}
				want := []int64{s[0].left(w.now)}
				if m.kind == "soft" {
					want = append(want, s[1].left(w.now), s[2].left(w.now))
				}
				if got := w.remaining(m.rule.Name, "", values...); !slices.Equal(got, want) {
					rt.Fatalf("%s of %q has %v left, want %v", m.rule.Name, key, got, want)
				}
			}
		}
	})
}

// modelDecide decides a request and settles it.
func modelDecide(models []*modelRule, name, path string, status int, now time.Time) (allowed bool, warned []string) {
	var apply []*modelRule
	allowed = true
	overSoft := map[*modelRule]bool{}
	for _, m := range models {
		if m.onlyFor != "" && m.onlyFor != path {
			continue
		}
		apply = append(apply, m)
		s := m.state(name)
		fits := m.cost <= s[0].left(now)
		if m.kind == "soft" && m.cost > s[1].left(now) {
			overSoft[m] = true
			fits = fits && m.cost <= s[2].left(now)
		}
		allowed = allowed && (fits || m.kind == "shadow")
	}
	for _, m := range apply {
		s := m.state(name)
		switch {
		case m.kind == "shadow": // counts by itself
			if m.cost <= s[0].left(now) {
				s[0].used += m.cost
			}
			continue
		case !allowed, (m.kind == "counted" || m.kind == "held") && status/100 != 4 && status != unseen:
			continue
		}
		s[0].used += m.cost
		switch {
		case overSoft[m]:
			s[2].used += m.cost
			warned = append(warned, m.rule.Name)
		case m.kind == "soft":
			s[1].used += m.cost
		}
	}
	return allowed, warned
}
