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
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// openLease is how long the connections of a crashed gateway count, by default.
const openLease = time.Minute

// listenerWords describes a listener with limits, with the worst case of each.
func listenerWords(c *config.Config, at *config.Listener) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	l := &at.Limits
	if at.TCP() {
		add("tcp://%s goes on to %s", at.Address, at.Upstream)
	} else {
		add("connections at %s, each of which may carry many requests: what limits these stands under rules", at.Address)
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
		add("connections %v: %s; what comes above is reset", limit, ofConnections(algo.WorstOf(limit).String()))
	}
	if l.Open.Cap > 0 {
		many := "connections"
		if l.Open.Cap == 1 {
			many = "connection"
		}
		add("open: at most %d %s at once, what comes above is reset; those of a gateway that died count for %v", l.Open.Cap, many, cmp.Or(l.Open.TTL, openLease))
	}
	for _, limit := range l.Bytes {
		add("bytes %v: %s, in both directions together; what comes above waits", limit, algo.WorstOf(limit))
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
	if !at.TCP() && (len(c.ClientIP.Trusted) > 0 || c.ClientIP.Hops > 0) && len(at.ProxyProtocol) == 0 {
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
