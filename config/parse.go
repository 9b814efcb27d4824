// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/policy"
)

// Load reads a regular file of at most 32 MiB; a pipe might never be written to. A file that
// cannot be read is an error of package os. Faults of the content are [Faults].
func Load(name string) (c *Config, err error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file; use the path of one", name)
	}
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	f, err := os.Open(name) //nolint:gosec // the caller chooses the file
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1)) // Parse says that it is too large
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(name, data)
}

// Parse reads the content of a file of that name. Its error is [Faults], sorted by place.
func Parse(name string, data []byte) (*Config, error) {
	sum := sha256.Sum256(data)
	c := &Config{File: name, Version: hex.EncodeToString(sum[:6])}
	d := newDecoder(name)
	if root := d.document(data); root != nil {
		d.config(root, c)
	}
	if err := d.problems(); err != nil {
		return nil, err
	}
	c.named, c.Platforms = d.named, d.platforms
	return c, nil
}

func (d *decoder) config(root *yaml.Node, c *Config) {
	var ruleNodes []*yaml.Node
	one := func(name string, read func(n *yaml.Node)) field { return field{name, read} }
	d.mapping(root, "the file",
		one("listen", func(n *yaml.Node) { d.list(n, func(n *yaml.Node) { d.listener(n, c) }) }),
		one("upstream", func(n *yaml.Node) { d.list(n, func(n *yaml.Node) { d.upstream(n, c) }) }),
		one("admin", func(n *yaml.Node) { d.admin(n, &c.Admin) }),
		one("store", func(n *yaml.Node) { d.store(n, &c.Store) }),
		one("client_ip", func(n *yaml.Node) { d.clientIP(n, &c.ClientIP) }),
		one("tokens", func(n *yaml.Node) { c.Tokens = d.tokens(n) }),
		one("allow", func(n *yaml.Node) { d.networks(n, &c.Allow) }),
		one("deny", func(n *yaml.Node) { d.networks(n, &c.Deny) }),
		one("fields", func(n *yaml.Node) { d.headerFields(n, c) }),
		d.number("max_delayed", 1, 1_000_000, &c.MaxHeld),
		d.number("abandoned", 1, 1_000_000, &c.Abandoned),
		d.number("max_delayed_per_key", 1, 1_000_000, &c.MaxHeldPerKey),
		d.number("max_connections", 1, 10_000_000, &c.MaxConnections),
		one("least_body_rate", func(n *yaml.Node) { d.leastBodyRate(n, &c.LeastBodyRate) }),
		d.number("max_read_ahead", 1<<16, 1<<40, &c.MaxReadAhead),
		d.number("nodes", 1, maxNodes, &c.Nodes),
		one("exempt", func(n *yaml.Node) {
			d.mapping(n, "exempt", one("networks", func(n *yaml.Node) { d.networks(n, &c.Exempt) }))
		}),
		one("decision_log", func(n *yaml.Node) { d.decisionLog(n, &c.DecisionLog) }),
		one("access_log", func(n *yaml.Node) { d.accessLog(n, &c.AccessLog) }),
		one("rules", func(n *yaml.Node) { ruleNodes = d.ruleNodes(n) }),
	)
	if d.recorded != nil {
		return
	}
	d.circles(root, c)
	if c.MaxHeldPerKey > cmp.Or(c.MaxHeld, defaultQueue) {
		d.fault(child(root, "max_delayed_per_key"), "max_delayed_per_key is more than the %d that are delayed in all; use a smaller number, or a larger max_delayed", cmp.Or(c.MaxHeld, defaultQueue))
	}
	if ruleNodes == nil && len(d.faults) == 0 {
		d.fault(root, "no rules; add at least one under rules")
	}
	rules, faults := d.rules(ruleNodes, c.Exempt)
	for i := range rules {
		if l := rules[i].Lease; l != nil && l.Nodes == 0 {
			l.Nodes = int(c.Nodes)
		}
	}
	clean, nodes := rules[:0], ruleNodes[:0] // the rules without faults, in the same memory
	c.lines = make([]int, 0, len(rules))
	for i := range rules {
		if len(faults[i]) > 0 {
			d.rest(&rules[i], faults[i], ruleNodes[i])
			continue
		}
		clean, nodes = append(clean, rules[i]), append(nodes, ruleNodes[i])
		c.lines = append(c.lines, ruleNodes[i].Line)
	}
	if len(c.Listen)+len(c.Upstreams) > 0 { // a program that decides without serving has its own
		d.unknown(c)
	}
	claims := slices.ContainsFunc(d.claims, func(at claim) bool { return at.of.Source == sourceClaim })
	if len(d.faults) == 0 && c.Tokens != nil && c.Tokens.Required && !claims {
		d.fault(child(child(root, "tokens"), "required"), "no rule has a claim in its key or its tiers, so no request needs a token; leave required out, or write by: claim.sub")
	}
	if file := c.AccessLog.File; file != "" && file == c.DecisionLog.File && !isStream(file) {
		d.fault(child(root, "access_log"), "access_log is written to the file of decision_log; name another")
	}
	var err error
	c.Policy, err = policy.Compile(clean)
	if faults, ok := errors.AsType[policy.RuleErrors](err); ok {
		for _, f := range faults {
			d.fault(locate(nodes[f.Rule], f.At), "%s", f.Problem)
		}
	}
	for i := range clean {
		d.neverAdmits(nodes[i], &clean[i])
	}
	if c.Policy != nil && len(clean) == len(rules) {
		d.listeners(c, nodes)
	}
	if len(d.faults) == 0 {
		d.sampledRule(root, c)
	}
}

// unknown finds claims and certificate names that no request can have.
func (d *decoder) unknown(c *Config) {
	certificates := slices.ContainsFunc(c.Listen, func(l Listener) bool { return !l.TCP() && l.ClientCAFile != "" })
	for _, at := range d.claims {
		switch {
		case at.of.Source == sourceClaim && c.Tokens == nil:
			d.fault(at.node, "tokens are not verified, so no request has the claim %s; set tokens", at.of.Name)
		case at.of.Source == sourceCertificate && !certificates:
			d.fault(at.node, "no listener asks for client certificates, so no request has %v; set in a listener tls: {cert: FILE, key: FILE, client_ca: FILE}", at.of)
		}
	}
}

// leastBodyRate reads bytes a second, or off.
func (d *decoder) leastBodyRate(n *yaml.Node, into *int64) {
	d.recorded.words(n, "off")
	if n.Value == "off" {
		*into = -1
		return
	}
	d.number("least_body_rate", 1, 1_000_000, into).read(n)
}

// rest finds further faults of a rule that could be read in part: those of the policy in keys
// without other faults.
func (d *decoder) rest(r *policy.Rule, known Faults, n *yaml.Node) {
	_, err := policy.Compile([]policy.Rule{*r})
	var faults policy.RuleErrors
	if !errors.As(err, &faults) {
		return
	}
	for _, f := range faults {
		at := locate(n, f.At)
		if at != n && !slices.ContainsFunc(known, func(f Fault) bool { return encloses(at, f) }) {
			d.fault(at, "%s", f.Problem)
		}
	}
}

// encloses reports whether a fault lies within a node.
func encloses(n *yaml.Node, f Fault) bool {
	if n.Line == f.Line && (n.Column == f.Column || n.Kind == yaml.ScalarNode && n.Column <= f.Column) {
		return true
	}
	return slices.ContainsFunc(n.Content, func(n *yaml.Node) bool { return encloses(n, f) })
}

// ruleNodes returns the items of the list of rules.
func (d *decoder) ruleNodes(n *yaml.Node) (nodes []*yaml.Node) {
	nodes = []*yaml.Node{}
	at := n
	if n = d.enter(n); n == nil {
		return nodes
	}
	if d.recorded.items(n, func(n *yaml.Node) { d.newRuleReader().read(n, nil) }) {
		return nodes
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(at, "rules is %s; use a list, each rule behind a dash", kind(n))
		return nodes
	}
	if len(n.Content) > maxRules {
		d.fault(at, "%d rules; a file has at most %d", len(n.Content), maxRules)
		return nodes
	}
	for _, item := range n.Content {
		if item = d.enter(item); item != nil {
			nodes = append(nodes, item)
		}
	}
	return nodes
}
