// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
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
		texts = append(texts, fmt.Sprintf("%s: %d new ones within %s make the store in this process forget keys that are not denied, each of which may then spend up to %s anew; %s, or raise max_keys (now %d)",
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
