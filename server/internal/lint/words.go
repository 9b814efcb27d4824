// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
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

// words describes a rule, with the worst case of each limit.
func words(c *config.Config, r *policy.Rule) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("which requests: %s", which(&r.Match))
	if len(r.ExemptNetworks) > 0 {
		add("not those from %s", prefixes(r.ExemptNetworks))
	}
	if r.Cost != (policy.Cost{}) {
		add("each costs %s", costWords(r.Cost))
	}
	if r.HoldFor > 0 {
		add("the charge on arrival is a hold: if this process dies, its units come back after %s; a request that takes longer is charged in full at its end", amount.Length(r.HoldFor))
	}
	if w := r.When; w != nil {
		text := "only those answered by " + joined(w.Status, " or ", policy.Status.String) + " count"
		if w.ChargeFirst {
			add("%s; all are charged on arrival, and the others refunded", text)
		} else {
			add("%s; they are charged at the end, so that requests in flight may exceed the limits", text)
		}
	}
	for i := range r.Levels {
		lines = append(lines, levelWords(r, &r.Levels[i])...)
	}
	if r.Lease != nil {
		l := &r.Levels[0]
		lines = append(lines, leaseWords(r.Lease, "", l.Limits)...)
		if l.Tiers != nil {
			for _, tier := range sortedKeys(l.Tiers.Limits) {
				lines = append(lines, leaseWords(r.Lease, fmt.Sprintf("where %v is %s: ", l.Tiers.By, tier), l.Tiers.Limits[tier])...)
			}
		}
	}
	if r.Shape {
		add("bodies above a limit are slowed down, not denied: each part waits for at most %v", cmp.Or(r.MaxWait, bounds.ShapeTurn))
	} else if r.MaxWait > 0 && waits(r) {
		add("delayed for at most %v, else denied", r.MaxWait)
	}
	if r.Status != 0 {
		add("a denial is answered by status %d", r.Status)
	}
	lines = append(lines, answerWords(r.Answer)...)
	if j := r.RetryJitter; j.Percent > 0 {
		add("Retry-After is up to %d%% longer than needed, at random", j.Percent)
	} else if j.Most > 0 {
		add("Retry-After is up to %s longer than needed, at random", amount.Length(j.Most))
	}
	switch {
	case r.Shape && r.Failure == sluice.FailOpen:
		add("if the store is unavailable: bodies are not slowed down")
	case r.Shape:
		add("if the store is unavailable: bodies are cut off%s", map[bool]string{true: ", unless this process can decide"}[r.Failure == sluice.FailLocal])
	case r.Shadow:
		add("shadow mode: reported, never denied")
	case r.Failure == sluice.FailOpen:
		add("if the store is unavailable: requests are allowed")
	case r.Failure == sluice.FailLocal:
		lines = append(lines, ruleShares(c, r)...)
	default:
		add("if the store is unavailable: requests are refused")
	}
	return lines
}

func levelWords(r *policy.Rule, l *policy.Level) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	whose := whoseBudget(l.By)
	if l.Name != "" {
		whose = l.Name + ", " + whose
	}
	if len(l.By) == 0 && l.Name == "" && len(r.Match.Descriptor) == 0 {
		whose += "; use by: ip for one per client"
	}
	never := len(r.Match.Descriptor) > 0 && !slices.ContainsFunc(l.By, func(p policy.Part) bool { return p.Source != source.Descriptor && p.Source != source.Host })
	if len(l.By) > 0 && !never { // else what the rule matches has it
		whose += [...]string{
			policy.Refuse: "; requests without it get 400",
			policy.Share:  "; requests without it share one budget",
			policy.Skip:   "; requests without it are not limited",
		}[l.Missing]
	}
	add("key: %s", whose)
	if n := len(l.ExemptKeys); n > 0 {
		add("not: %s", joined(l.ExemptKeys, " or ", func(k []string) string { return keyText(l, k) }))
	}
	list := func(prefix string, limits []policy.Limit) {
		for _, limit := range limits {
			add("%s%s", prefix, limitWords(r, limit))
		}
	}
	list("limit ", l.Limits)
	if l.Unlimited {
		add("limit none: requests without a tier below are counted, and never denied")
	}
	for _, b := range l.Blocks {
		add("%s", blockWords(b))
	}
	if l.InFlight != nil {
		ttl := cmp.Or(l.InFlight.TTL, bounds.DefaultLease)
		add("in flight: at most %s at once; one that does not end counts for %v", amount.Of(l.InFlight.Cap, false), ttl)
	}
	if l.Tiers != nil {
		for _, tier := range sortedKeys(l.Tiers.Limits) {
			list(fmt.Sprintf("where %v is %s: ", l.Tiers.By, tier), l.Tiers.Limits[tier])
		}
		for _, tier := range l.Tiers.Unlimited {
			add("where %v is %s: no limit; counted, never denied", l.Tiers.By, tier)
		}
	}
	for _, o := range l.Overrides {
		until := "until it is removed"
		if !o.Expires.IsZero() {
			until = "until " + o.Expires.UTC().Format("2006-01-02 15:04")
		}
		list(fmt.Sprintf("for %s, %s (%s; %s): ", keyText(l, o.Key), until, o.Reason, o.Author), o.Limits)
	}
	for _, c := range l.Candidates {
		some := ""
		if l.Tiers != nil || len(l.Overrides) > 0 {
			some = ", of requests without tier and override"
		}
		for _, limit := range c.Limits {
			add("candidate %s%s: %s", c.Name, some, limitWords(r, policy.Limit{Limit: limit}))
		}
		for _, tier := range sortedKeys(c.Tiers) {
			for _, limit := range c.Tiers[tier] {
				add("candidate %s, where %v is %s: %s", c.Name, l.Tiers.By, tier, limitWords(r, policy.Limit{Limit: limit}))
			}
		}
	}
	return lines
}

// limitWords describes a limit and its worst case.
func limitWords(r *policy.Rule, l policy.Limit) string {
	worst := func(l sluice.Limit) string { return Worst(r, l) + deniedWords(l) }
	if l.Limit = r.Counted(l.Limit); l.Grace != nil {
		l.Grace = new(r.Counted(*l.Grace))
	} else {
		return fmt.Sprintf("%v: %s", l.Limit, worst(l.Limit))
	}
	return fmt.Sprintf("%v: %s; above it requests are allowed with a warning, %s", l, worst(l.Limit), worst(*l.Grace))
}

// Worst describes the worst case of a rule's limit and, where the cost is known only
// afterwards, the treatment of a response that costs more than remains.
func Worst(r *policy.Rule, l sluice.Limit) string {
	if r.NeverAdmits(policy.Limit{Limit: l}) != "" {
		return "no request ever fits"
	}
	if r.Shape || !r.Cost.Afterwards() {
		return inUnits(r.Cost, algo.WorstOf(served(r.Cost, l)).String())
	}
	f := r.Counted(l).Filled()
	bytes, debt := l.Unit == sluice.Bytes, f.Debt
	f.Debt = 0 // nothing is admitted into debt
	if r.Cost.Of == policy.RequestBytes {
		return algo.WorstOf(f).String() // a body is charged before it is passed on
	}
	says := inUnits(r.Cost, algo.WorstOf(f).String()) + ", plus the requests in flight when that is reached"
	counter, _ := f.Algorithm.(sluice.SlidingCounter)
	switch {
	case counts(f):
		return says + "; one response of any size passes in each window"
	case debt == 0:
		return says + "; the cost of a response above that is forgotten"
	}
	pays := f.Window // for a quota
	if counter.Conservative {
		pays += f.Window / time.Duration(counter.SubWindows)
	}
	of := func(units int64) string { return amount.Of(units, true) }
	costs := "of"
	if !bytes {
		costs, of = "that costs", func(units int64) string { return strconv.FormatInt(units, 10) }
	}
	return fmt.Sprintf("%s; a response %s %s keeps the client out for %s, one of twice as much for twice as long; more than %s is forgotten",
		says, costs, of(f.Quota), amount.Lasting(pays), of(max(f.Burst, f.Quota)+debt))
}

// deniedWords describes the effect of counting denials, if l counts them.
func deniedWords(l sluice.Limit) string {
	if !l.CountDenied {
		return ""
	}
	return fmt.Sprintf("; denied requests count too: a client that stops is allowed again within %v", algo.WorstOf(l).StaysOut)
}

func which(m *policy.Match) string {
	var parts []string
	switch {
	case len(m.Methods) > 0 && len(m.Paths) > 0:
		parts = append(parts, or(m.Methods)+" "+or(m.Paths))
	case len(m.Methods) > 0:
		parts = append(parts, or(m.Methods))
	case len(m.Paths) > 0:
		parts = append(parts, or(m.Paths))
	}
	if len(m.Except) > 0 {
		parts = append(parts, "but not "+or(m.Except))
	}
	if len(m.Hosts) > 0 {
		parts = append(parts, "for "+or(m.Hosts))
	}
	fields := func(with, what string, fields []policy.Field) {
		for _, f := range fields {
			switch {
			case f.Absent:
				parts = append(parts, "without "+what+" "+f.Name)
			case len(f.Values) == 0:
				parts = append(parts, with+what+" "+f.Name)
			default:
				parts = append(parts, with+what+" "+f.Name+" "+or(f.Values))
			}
		}
	}
	fields("with ", "header", m.Headers)
	fields("with ", "query", m.Queries)
	fields("with ", "descriptor", m.Descriptor)
	fields("but not with ", "descriptor", m.ExceptDescriptor)
	if len(m.Networks) > 0 {
		parts = append(parts, "from "+prefixes(m.Networks))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}

func whoseBudget(by []policy.Part) string {
	if len(by) == 0 {
		return "none: one budget for all requests"
	}
	return partsWords(by, " and ")
}

func partsWords(parts []policy.Part, between string) string {
	return joined(parts, between, func(p policy.Part) string {
		if p.Source == source.First && len(parts) > 1 {
			return "(" + partWords(p) + ")"
		}
		return partWords(p)
	})
}

func partWords(p policy.Part) string {
	switch p.Source {
	case source.IP:
		v4, v6 := "address", "/64 of IPv6"
		if p.IPv4Bits != 0 && p.IPv4Bits != 32 {
			v4 = fmt.Sprintf("/%d of IPv4", p.IPv4Bits)
		}
		if p.IPv6Bits != 0 {
			v6 = fmt.Sprintf("/%d of IPv6", p.IPv6Bits)
		}
		return "client " + v4 + " or " + v6
	case source.Path:
		if c := p.Name[0]; '0' <= c && c <= '9' { // no wildcard's name begins with a digit
			return "path segment " + p.Name
		}
		return "{" + p.Name + "} of the path"
	case source.Certificate:
		return p.Name + " of a client's certificate"
	case source.Host, source.Method:
		return p.Source
	case source.First:
		return partsWords(p.Parts(), ", or else ")
	default:
		return p.Source + " " + p.Name
	}
}

func costWords(c policy.Cost) string {
	switch c.Of {
	case policy.RequestBytes:
		return "the bytes of its body"
	case policy.ResponseBytes:
		return "the bytes of its response"
	case policy.RequestHeader:
		return fmt.Sprintf("the number in its header %s, %d at most", c.Header, c.Most)
	case policy.ResponseHeader:
		return fmt.Sprintf("the number in its response's header %s, %d at most", c.Header, c.Most)
	case policy.Milliseconds:
		return "the milliseconds that it runs"
	default:
		return inUnits(policy.Cost{Of: policy.ResponseHeader}, amount.Of(c.Units, false))
	}
}

// joined returns the texts of a list in one.
func joined[T any](list []T, between string, text func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return strings.Join(texts, between)
}

func or(list []string) string { return strings.Join(list, " or ") }

func prefixes(networks []netip.Prefix) string { return joined(networks, " or ", netip.Prefix.String) }

// keyText writes a key in the form of the file.
func keyText(l *policy.Level, values []string) string {
	texts := slices.Clone(values)
	for i, value := range values {
		if of, value := l.By[i].Of(value); of != l.By[i] {
			texts[i] = of.String() + "=" + value
		}
	}
	return strings.Join(texts, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// waits reports whether a rule charges requests before they are passed on, and so may delay
// them.
func waits(r *policy.Rule) bool {
	charges := func(l policy.Level) bool { return len(l.Limits)+len(l.Overrides) > 0 || l.Tiers != nil }
	return (r.When == nil || r.When.ChargeFirst) && slices.ContainsFunc(r.Levels, charges)
}
