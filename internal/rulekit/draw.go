// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package rulekit draws rules and requests for tests of code that decides by rules, and
// compares explanations with the decisions that follow.
package rulekit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// drawer draws from few values, so that requests match rules and share keys.
type drawer struct{ *rand.Rand }

func (d drawer) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d drawer, list ...T) T { return list[d.IntN(len(list))] }

// some returns up to most of a list.
func some[T any](d drawer, most int, list ...T) []T {
	d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return slices.Clone(list[:d.IntN(most+1)])
}

var (
	limits = []string{
		"3/s", "7/min burst 4", "20/min burst 5", "100/ms burst 9", "5/day", "4/s interval-refill", "6/min aligned-refill burst 9", "3/s initial 1",
		"5/s burst 3 count-denied", "4/s debt 3 next-waits", "4/s leaky-bucket burst 3", "6/s leaky-bucket burst 5 nodelay",
		"3/s fixed-window", "4/min fixed-window anchor first", "5/day calendar Europe/Berlin fixed-window", "6/s fixed-window count-denied",
		"5/2s sliding-counter", "6/s sliding-counter sub-windows 4", "5/s sliding-counter strict", "5/s sliding-counter conservative", "4/min sliding-counter pre-filled",
		"4/s sliding-log", "3/min sliding-log count-denied", "9/s sliding-histogram precision 3", "100/h sliding-histogram",
	}
	blocks = []string{"1/2s block 5s", "2/min block 10min"}
	parts  = []policy.Part{
		policy.IP(), policy.Network(24, 48), policy.Header("X-User"), policy.Query("q"), policy.Cookie("c"), policy.Claim("sub"), policy.Host(),
		{Source: source.Method},
		policy.Segment(1),
		policy.First(policy.Claim("sub"), policy.IP()),
	}
)

func (d drawer) limit(i int) sluice.Limit {
	return sluice.MustParseLimit(pick(d, limits...)).WithName(fmt.Sprintf("l%d", i))
}

func (d drawer) list(soft bool) (list []policy.Limit) {
	for i := range 1 + d.IntN(3) {
		list = append(list, policy.Limit{Limit: d.limit(i)})
	}
	if soft && d.one(4) {
		grace := d.limit(9)
		list[0].Grace = &grace
	}
	return list
}

// Rules returns rules, which Compile may refuse.
func Rules(rnd *rand.Rand) (rules []policy.Rule) {
	d := drawer{rnd}
	for i := range 1 + d.IntN(4) {
		rules = append(rules, d.rule(i))
	}
	return rules
}

func (d drawer) rule(i int) policy.Rule {
	r := policy.Rule{Name: fmt.Sprintf("r%d", i), Match: d.match(), Shadow: d.one(6)}
	for j := range 1 + d.IntN(2) {
		r.Levels = append(r.Levels, d.level(j))
	}
	switch d.IntN(8) {
	case 0:
		r.Cost.Units = 2
	case 1:
		r.Cost = policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 5}
	case 2:
		r.Cost = policy.Cost{Of: policy.Milliseconds}
		if d.one(2) {
			r.HoldFor = time.Hour
		}
	case 3:
		r.When = &policy.When{Status: []policy.Status{policy.Class(4)}, ChargeFirst: d.one(2)}
	case 4:
		r.MaxWait = time.Duration(1+d.IntN(3000)) * time.Millisecond
	case 5:
		r.ExemptNetworks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/30")}
	case 6:
		if d.one(2) {
			r.Shape, r.Shadow, r.Cost.Of = true, false, policy.ResponseBytes
			r.Levels = []policy.Level{{By: some(d, 1, parts...), Missing: policy.Share, Limits: []policy.Limit{{Limit: sluice.MustParseLimit("1MB/s")}}}}
		}
	}
	return r
}

func (d drawer) match() (m policy.Match) {
	if d.one(4) {
		m.Methods = some(d, 2, "GET", "POST", "PUT")
	}
	if d.one(4) {
		m.Hosts = some(d, 2, "a.example", "b.example", "*.example")
	}
	if d.one(3) {
		m.Paths = some(d, 2, "/", "/a", "/b/", "/{x}", "/a/{rest...}")
	}
	if d.one(6) {
		m.Except = some(d, 1, "/b", "/a/b")
	}
	if d.one(5) {
		m.Headers = []policy.Field{pick(d, policy.Field{Name: "X-User"}, policy.Field{Name: "X-User", Absent: true}, policy.Field{Name: "X-User", Values: []string{"ada"}})}
	}
	if d.one(6) {
		m.Queries = []policy.Field{{Name: "q", Values: []string{"1"}}}
	}
	if d.one(5) {
		m.Networks = []netip.Prefix{pick(d, netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32"))}
	}
	return m
}

func (d drawer) level(j int) policy.Level {
	l := policy.Level{Name: fmt.Sprintf("v%d", j), By: some(d, 2, parts...), Missing: pick(d, policy.Share, policy.Share, policy.Skip, policy.Refuse), Limits: d.list(true)}
	if d.one(3) {
		l.Blocks = []sluice.Limit{sluice.MustParseLimit(pick(d, blocks...)).WithName("b")}
	}
	if d.one(5) {
		l.InFlight = &sluice.SlotLimit{Cap: int64(1 + d.IntN(3)), TTL: time.Duration(1+d.IntN(4)) * time.Second}
	}
	if d.one(5) {
		l.Tiers = &policy.Tiers{By: pick(d, policy.Header("X-Plan"), policy.Claim("plan")), Limits: map[string][]policy.Limit{"pro": d.list(false)}, Unlimited: []string{"inner"}}
	}
	if d.one(6) {
		l.Candidates = []policy.Candidate{{Name: "c", Limits: []sluice.Limit{d.limit(0)}}}
		if l.Tiers != nil {
			l.Candidates[0].Tiers = map[string][]sluice.Limit{"pro": {d.limit(0)}}
		}
	}
	if len(l.By) > 0 && d.one(4) {
		values := make([]string, len(l.By))
		for i, p := range l.By {
			values[i] = d.value(p)
		}
		if d.one(2) {
			l.ExemptKeys = [][]string{values}
		} else {
			l.Overrides = []policy.Override{{Key: values, Limits: d.list(false), Reason: "a test", Author: "a test"}}
		}
	}
	return l
}

// value returns a value that requests have, too.
func (d drawer) value(p policy.Part) string {
	switch p.Source {
	case source.IP:
		return "192.0.2.1"
	case source.First:
		return "claim.sub=ada"
	case source.Host:
		return "a.example"
	case source.Method:
		return "GET"
	default:
		return "ada"
	}
}

// Request returns a request.
func Request(rnd *rand.Rand) *policy.Request {
	d := drawer{rnd}
	p := &policy.Request{
		Method: pick(d, "GET", "GET", "HEAD", "POST"), Host: pick(d, "a.example", "b.example", "c.test"),
		Path: pick(d, "/a", "/a", "/b", "/a/b", "/ada", "/a%2Fb", "/"), Client: pick(d, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::1"), netip.Addr{}),
		Headers: map[string][]string{}, Queries: map[string][]string{}, Cookies: map[string][]string{}, Claims: map[string]string{}, Length: -1,
	}
	for _, of := range []struct {
		in     map[string][]string
		name   string
		values []string
	}{
		{p.Headers, "X-User", []string{"ada", "bob"}},
		{p.Headers, "X-Plan", []string{"pro", "inner"}},
		{p.Headers, "X-Cost", []string{"1", "3"}},
		{p.Queries, "q", []string{"1", "ada"}},
		{p.Cookies, "c", []string{"ada"}},
	} {
		if !d.one(3) {
			of.in[of.name] = []string{pick(d, of.values...)}
		}
		if d.one(20) {
			of.in[of.name] = append(of.in[of.name], "twice")
		}
	}
	if !d.one(3) {
		p.Claims["sub"], p.Claims["plan"] = pick(d, "ada", "bob"), pick(d, "pro", "inner", "")
	}
	if d.one(20) {
		p.Token = &policy.TokenError{Problem: "the token has expired"}
	}
	return p
}
