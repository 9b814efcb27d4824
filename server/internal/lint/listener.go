// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// openLease is how long the connections of a crashed gateway count, by default.
const openLease = time.Minute

// listedWords names the listeners at which a rule applies, unless these are all.
func listedWords(c *config.Config, rule string) []string {
	var at []string
	left := false // the rule does not apply at some listener
	for i := range c.Listen {
		switch l := &c.Listen[i]; {
		case l.TCP():
		case applies(c, l, rule):
			at = append(at, l.Address)
		default:
			left = true
		}
	}
	if !left {
		return nil
	}
	return []string{"applies at the listeners " + strings.Join(at, ", ") + " alone"}
}

// applies reports whether a rule applies at a listener.
func applies(c *config.Config, at *config.Listener, rule string) bool {
	_, ok := c.PolicyOf(at).RuleOf(rule)
	return ok
}

// beside reports whether a rule applies at every listener at which another one does.
func beside(c *config.Config, other, rule string) bool {
	return !slices.ContainsFunc(c.Listen, func(l config.Listener) bool {
		return !l.TCP() && applies(c, &l, rule) && !applies(c, &l, other)
	})
}

// listenerWords describes a listener with limits, with the worst case of each.
func listenerWords(c *config.Config, at *config.Listener) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	l := &at.Limits
	if at.TCP() {
		add("tcp://%s is passed on to %s", at.Address, at.Upstream)
	} else {
		add("connections at %s, each of which may carry many requests; the limits of requests stand under rules", at.Address)
	}
	if len(c.Exempt) > 0 {
		add("not limited: those from %s", prefixes(c.Exempt))
	}
	by := l.By
	if by.Source == source.None {
		by = policy.IP()
	}
	add("key: %s", whoseBudget([]policy.Part{by}))
	for _, limit := range l.Connections {
		add("connections %v: %s; further ones are reset", limit, ofConnections(algo.WorstOf(limit).String()))
	}
	if l.Open.Cap > 0 {
		many := "connections"
		if l.Open.Cap == 1 {
			many = "connection"
		}
		add("open: at most %d %s at once, further ones are reset; the connections of a gateway that died count for %v", l.Open.Cap, many, cmp.Or(l.Open.TTL, openLease))
	}
	for _, limit := range l.Bytes {
		add("bytes %v: %s, in both directions together; further bytes wait", limit, algo.WorstOf(limit))
	}
	switch l.Failure {
	case sluice.FailOpen:
		add("if the store is unavailable: connections are accepted")
	case sluice.FailLocal:
		for _, line := range shares(c, policy.Cost{}, slices.Concat(l.Connections, l.Bytes), l.Open.Cap) {
			add("%s", ofConnections(line))
		}
	default:
		add("if the store is unavailable: connections are reset")
	}
	return lines
}

// listenerWarnings returns the settings without effect in a listener's limits.
func listenerWarnings(c *config.Config, at *config.Listener) (texts []string) {
	if wide := everywhere(at.ProxyProtocol); wide != "" {
		texts = append(texts, fmt.Sprintf("proxy_protocol has %s, so any client that connects may write its own address; list the proxies' networks", wide))
	}
	if !at.Limits.Limited() {
		return texts
	}
	for _, list := range [][]sluice.Limit{at.Limits.Connections, at.Limits.Bytes} {
		var r policy.Rule // charges one unit and delays nothing as a whole
		r.Shape = true
		set := make([]policy.Limit, len(list))
		for i := range list {
			set[i].Limit = list[i]
			texts = append(texts, odd(&r, list[i])...)
		}
		more, _ := pointless(&r, set)
		texts = append(texts, more...)
	}
	if !at.TCP() && !inside(c.ClientIP.Forwarding(), c.Exempt) && len(at.ProxyProtocol) == 0 {
		texts = append(texts, "its connections come from the proxies in client_ip, so all clients of a proxy share a budget; list the proxies' networks under exempt, or limit clients under rules")
	}
	for i := range texts {
		texts[i] = ofConnections(texts[i])
	}
	return texts
}

// shared hints at HTTP listeners that may be behind a load balancer if a rule is by ip and the
// file does not say whether there is one.
func shared(c *config.Config) (hints []Hint) {
	rule, ok := c.RuleByIP()
	if !ok || len(c.ClientIP.Trusted) > 0 || c.ClientIP.Hops > 0 || c.ClientIP.None {
		return nil
	}
	for i := range c.Listen {
		l := &c.Listen[i]
		if l.TCP() || len(l.ProxyProtocol) > 0 || loopback(l.Address) {
			continue
		}
		hints = append(hints, Hint{c.File, l.Line, fmt.Sprintf("%s can be reached from other machines, and rule %q is by ip: if a load balancer or another proxy is in front, all its clients share one budget; "+
			"set client_ip: {trusted: NETWORK} with its network, or client_ip: {trusted: []} if there is none", l.Address, rule)})
	}
	return hints
}

// ofConnections replaces requests by connections in the description of a limit.
func ofConnections(text string) string { return strings.ReplaceAll(text, "request", "connection") }

// loopback reports whether host:port is reachable from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, perr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || perr == nil && ip.IsLoopback())
}

// ruleShares describes what a rule with failure local admits while the store is unavailable.
func ruleShares(c *config.Config, r *policy.Rule) (lines []string) {
	var limits []sluice.Limit
	slots := int64(0)
	for i := range r.Levels {
		l := &r.Levels[i]
		for _, limit := range l.Limits {
			f := r.Counted(limit.Limit)
			if r.Cost.Afterwards() {
				f.Debt = 0 // nothing is admitted into debt
			}
			limits = append(limits, f)
			if limit.Grace != nil { // requests above the soft limit are admitted
				limits = append(limits, r.Counted(*limit.Grace))
			}
		}
		if l.InFlight != nil {
			slots = l.InFlight.Cap
		}
	}
	return shares(c, r.Cost, limits, slots)
}

// shares describes what nodes admit while the store is unavailable, for limits under a cost
// and a number of slots.
func shares(c *config.Config, cost policy.Cost, limits []sluice.Limit, slots int64) (lines []string) {
	const away = "if the store is unavailable: "
	switch {
	case c.Store.Redis == "":
		return []string{away + "each process limits by itself"}
	case c.Nodes <= 1:
		return []string{away + "each node limits by its share, the limit divided by the nodes last seen alive"}
	}
	for _, l := range limits {
		s, name, l := l.Share(int(c.Nodes)), l.Name, l.Filled()
		s.Name = name
		if cost.Units > s.Full() {
			lines = append(lines, fmt.Sprintf("%s%v on each of %d nodes, where no request fits that costs %d: each gets 503", away, s, c.Nodes, cost.Units))
			continue
		}
		units, window := algo.Bound(s, l.Window), amount.Length(l.Window)
		if w, _ := l.Algorithm.(sluice.FixedWindow); w.Calendar != sluice.NoCalendar {
			units, window = s.Quota+s.Debt, "calendar "+w.Calendar.String()
		}
		lines = append(lines, fmt.Sprintf("%s%v on each of %d nodes, together at most %s in any %s",
			away, s, c.Nodes, inUnits(cost, amount.Of(c.Nodes*units, l.Unit == sluice.Bytes)), window))
	}
	if slots > 0 {
		lines = append(lines, fmt.Sprintf("%sat most %s at once on each of %d nodes", away, amount.Of(max(slots/c.Nodes, 1), false), c.Nodes))
	}
	return lines
}

// nodesHints hints at rules and listeners whose limits are divided by an unknown number of
// nodes.
func nodesHints(c *config.Config) []Hint {
	line := 0
	for i := range len(c.Policy.Rules()) {
		if r := &c.Policy.Rules()[i]; line == 0 && r.Failure == sluice.FailLocal && !r.Shadow {
			line = c.Line(i)
		}
	}
	for i := range c.Listen {
		if at := &c.Listen[i]; line == 0 && at.Limits.Failure == sluice.FailLocal {
			line = at.Line
		}
	}
	if line == 0 || c.Store.Redis == "" || c.Nodes > 0 {
		return nil
	}
	return []Hint{{c.File, line, "failure: local divides limits by the nodes last seen alive, and a node that starts while the store is unavailable has seen none; write nodes: N, how many share the store"}}
}

// someNodes is the number of nodes for which the cost of a lease is stated if the terms have
// none.
const someNodes = 4

// leaseWords describes the cost of leasing limits.
func leaseWords(t *sluice.LeaseTerms, prefix string, limits []policy.Limit) (lines []string) {
	costs, err := leaseCosts(t, limits)
	if err != nil {
		return []string{prefix + "leased: " + err.Error()} // a policy has excluded this
	}
	for i, s := range costs {
		lines = append(lines, fmt.Sprintf("%sleased, %v: %v", prefix, limits[i].Limit, s))
	}
	return lines
}

// leaseCosts returns the cost of leasing limits together, for each of them.
func leaseCosts(t *sluice.LeaseTerms, limits []policy.Limit) ([]algo.Shortfall, error) {
	hard := make([]sluice.Limit, len(limits))
	for i := range hard {
		hard[i] = limits[i].Limit
	}
	plan, err := sluice.Compile("lease", hard...)
	if err != nil {
		return nil, err
	}
	return algo.LeaseCost(plan, *t, cmp.Or(t.Nodes, someNodes))
}

// unleased warns of a lease that saves little or nothing.
func unleased(c *config.Config, i int) (texts []string) {
	r := &c.Policy.Rules()[i]
	if r.Lease == nil {
		return nil
	}
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if c.Store.Redis == "" {
		add("nothing is leased, as the store is in this process; leave out the lease, or write a store that nodes share")
	}
	if r.Levels[0].InFlight != nil {
		add("requests in flight are counted by the store, each when it comes and when it goes; leave out the lease, or put in_flight into a rule of its own that matches less")
	}
	if costs, err := leaseCosts(r.Lease, r.Levels[0].Limits); err == nil && costs[0].Held == 0 {
		add("the limits are too small for leases of more than a unit, and others save nothing; leave out the lease, or write its units")
	}
	var m policy.Matches
	c.Policy.Match(c.Policy.Example(i).Attributes(), &m)
	for k := range m.Len() {
		other := &c.Policy.Rules()[m.At(k)]
		switch {
		case m.At(k) == i:
		case !other.Shadow && !r.Shadow:
			add("requests that also match rule %q are charged to both by the store, all or none, without a lease; narrow the matches", other.Name)
		case other.Lease == nil:
			add("requests that also match rule %q still ask the store each time; lease both, or narrow the matches", other.Name)
		}
	}
	return texts
}

// inside reports whether each network lies in one of the others.
func inside(networks, others []netip.Prefix) bool {
	for _, n := range networks {
		if !slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Bits() <= n.Bits() && o.Contains(n.Addr()) }) {
			return false
		}
	}
	return true
}
