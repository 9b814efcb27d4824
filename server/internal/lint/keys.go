// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

const (
	// newKeys is the number of new keys a second that lint assumes of one client without other
	// limits.
	newKeys = 100
	// shortRoom is the shortest life of a key that lint warns about.
	shortRoom = time.Minute
	// largeNetwork is the IPv6 prefix length that one client may have.
	largeNetwork = 48
)

// tooManyKeys warns of keys that a client can choose freely, where it can send so many of them
// within a key's life that the store in this process evicts keys that are not denied: see
// package memstore.
func tooManyKeys(c *config.Config, i int) (texts []string) {
	r := &c.Policy.Rules()[i]
	if c.Store.Redis != "" || r.Shadow {
		return nil
	}
	maxKeys := cmp.Or(c.Store.MaxKeys, bounds.DefaultMaxKeys)
	room := max(maxKeys/2, 1)
	for j := range r.Levels {
		l := &r.Levels[j]
		limit, life := longest(l)
		if life < shortRoom || int64(life/time.Second)*newKeys < room || bounded(c.Policy, i, j, life, room) {
			continue
		}
		which, remedy := freelyChosen(r, l, room)
		if which == "" {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %d new ones within %s make the store in this process forget keys that are not denied, each of which may then spend up to %s again; %s, or raise max_keys (now %d)",
			which, room, within(life), inUnits(r.Cost, amount.Of(algo.Bound(limit, time.Microsecond), limit.Unit == sluice.Bytes)), remedy, maxKeys))
	}
	return texts
}

// within formats the length of a span.
func within(d time.Duration) string {
	s := amount.Length(d)
	if s[0] > '9' {
		return "one " + s
	}
	return s
}

// longest returns the limit of a level with the longest life of a key, and that life.
func longest(l *policy.Level) (limit sluice.Limit, life time.Duration) {
	look := func(limits []policy.Limit) {
		for _, one := range limits {
			f := one.Limit.Filled()
			d := f.Window
			if f.Burst > f.Quota {
				d = time.Duration(float64(f.Burst) / float64(f.Quota) * float64(d)).Round(time.Second) // rounded, for a text
			}
			if d > life {
				limit, life = one.Limit, d
			}
		}
	}
	look(l.Limits)
	if l.Tiers != nil {
		for _, tier := range sortedKeys(l.Tiers.Limits) {
			look(l.Tiers.Limits[tier])
		}
	}
	return limit, life
}

// freelyChosen returns the part of a level's key of which a client can choose more values than
// room, and a remedy, or nothing.
func freelyChosen(r *policy.Rule, l *policy.Level, room int64) (which, remedy string) {
	for _, p := range leaves(l.By) {
		if chosen(r, p) {
			return "clients choose the " + strings.TrimSpace(p.Source+" "+p.Name), "add a rule by ip that matches as much"
		}
		if p.Source == source.IP {
			bits := cmp.Or(p.IPv6Bits, 64) - largeNetwork
			if bits > 0 && int64(1)<<min(bits, 62) >= room {
				return fmt.Sprintf("one client may have a /%d of IPv6, which is %d keys", largeNetwork, int64(1)<<min(bits, 62)), fmt.Sprintf("use ip/32/%d", largeNetwork)
			}
		}
	}
	return "", ""
}

// leaves returns the parts that are not made of others.
func leaves(by []policy.Part) (parts []policy.Part) {
	for _, p := range by {
		if p.Source == source.First || p.Source == source.All {
			parts = append(parts, leaves(p.Parts())...)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// chosen reports whether clients can send any value for a part.
func chosen(r *policy.Rule, p policy.Part) bool {
	switch p.Source {
	case source.Header, source.Query, source.Cookie, source.Path:
		return true
	case source.Host:
		return len(r.Match.Hosts) == 0 || slices.ContainsFunc(r.Match.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") })
	default: // claims are verified, and methods are few
		return false
	}
}

// bounded reports whether a limit whose key a client cannot choose admits fewer requests than
// room within d, among those that the i-th rule charges at its j-th level.
func bounded(p *policy.Policy, i, j int, d time.Duration, room int64) bool {
	r := &p.Rules()[i]
	for k := range len(p.Rules()) {
		other := &p.Rules()[k]
		if k != i && !matchesAll(other, r) || other.Shadow || other.When != nil || other.Cost.Of != policy.Fixed {
			continue
		}
		for m := range other.Levels {
			l := &other.Levels[m]
			if k == i && m == j || l.Missing == policy.Skip || len(l.ExemptKeys) > 0 || l.Tiers != nil && len(l.Tiers.Unlimited) > 0 {
				continue
			}
			if which, _ := freelyChosen(other, l, room); which != "" {
				continue
			}
			for _, limit := range l.Limits {
				if limit.Grace == nil && algo.Bound(limit.Limit, d)/max(other.Cost.Units, 1) < room {
					return true
				}
			}
		}
	}
	return false
}

// unreached warns of key parts after one that every request has, so that they are never the
// first.
func unreached(c *config.Config, r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		for _, p := range r.Levels[i].By {
			if p.Source == source.First {
				texts = append(texts, behind(c, p.Parts())...)
			}
		}
	}
	return texts
}

func behind(c *config.Config, parts []policy.Part) (texts []string) {
	required := c.Tokens != nil && c.Tokens.Required
	for i, p := range parts[:len(parts)-1] {
		next := parts[i+1]
		switch {
		case p.Source == source.IP || p.Source == source.Method:
			return append(texts, fmt.Sprintf("every request has the %v, so that %v behind it is never the first; use %v last", p, next, p))
		case p.Source == source.Claim && required:
			texts = append(texts, fmt.Sprintf("only a token without the claim %s gets to %v: a request without a token is answered with 401, as tokens.required says; leave that out, or %v", p.Name, next, next))
		}
	}
	return texts
}

// addressFields are header fields in which proxies, and clients too, write a client's address.
var addressFields = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip", "Fastly-Client-Ip"}

// forged warns of keys made of an address that clients can write themselves.
func forged(r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		for _, p := range leaves(r.Levels[i].By) {
			if p.Source == source.Header && slices.Contains(addressFields, p.Name) {
				texts = append(texts, fmt.Sprintf("a client may write %s itself, and has a budget for each address that it writes; use by: ip, and client_ip: {trusted: NETWORK, header: %s} with the proxies' network", p.Name, p.Name))
			}
		}
	}
	return texts
}

// proxyWarnings warns of clients that are trusted as proxies.
func proxyWarnings(c *config.Config) []string {
	wide := everywhere(c.ClientIP.Trusted)
	if wide == "" {
		return nil
	}
	return []string{fmt.Sprintf("client_ip trusts %s, so any client may write its own address into %s; list the proxies' networks, or set client_ip: {hops: N} with how many proxies a request passes",
		wide, cmp.Or(c.ClientIP.Header, "X-Forwarded-For"))}
}

// everywhere returns the first network larger than 10.0.0.0/8 or fc00::/7, which is too large
// for proxies alone, or "".
func everywhere(networks []netip.Prefix) string {
	for _, n := range networks {
		least := 7
		if n.Addr().Unmap().Is4() {
			least = n.Addr().BitLen() - 32 + 8
		}
		if n.Bits() < least {
			return n.String()
		}
	}
	return ""
}

// invited hints at tiers without limits that clients can claim themselves.
func invited(c *config.Config) (hints []Hint) {
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		for j := range r.Levels {
			t := r.Levels[j].Tiers
			if t == nil || !chosen(r, t.By) {
				continue
			}
			who := "names no tier"
			if len(t.Unlimited) > 0 {
				who = "says " + t.Unlimited[0]
			}
			if (len(t.Unlimited) > 0 || r.Levels[j].Unlimited) && !r.Shadow {
				hints = append(hints, Hint{c.File, c.Line(i), fmt.Sprintf("rule %q: clients choose the %v %s, and a client that %s has no limit; let a proxy in front set it, or take a claim",
					r.Name, t.By.Source, t.By.Name, who)})
			}
		}
	}
	return hints
}

// foreignPaths warns of paths with wildcards of other programs, which have no meaning here.
func foreignPaths(r *policy.Rule) (texts []string) {
	for _, path := range slices.Concat(r.Match.Paths, r.Match.Except) {
		if sign := foreignSign(path); sign != "" {
			texts = append(texts, fmt.Sprintf("the %s of path %s stands for itself; use {name} for any one segment, and end a path with / for all below it", sign, path))
		}
	}
	return texts
}

// foreignSign returns the first sign of a path with a meaning in other programs, or "". A
// colon within a segment, as in /v1/jobs:cancel, and a dollar that begins one, as in
// /$metadata, have none.
func foreignSign(path string) string {
	switch i := strings.IndexAny(path, "*[(^"); {
	case i >= 0:
		return path[i : i+1]
	case strings.Contains(path, "/:"):
		return ":"
	case strings.HasSuffix(path, "$"):
		return "$"
	}
	return ""
}
