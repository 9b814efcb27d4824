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

	"github.com/sluicegate/sluice/config/internal/document"
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
	data, err := io.ReadAll(io.LimitReader(f, document.MaxBytes+1)) // Parse says that it is too large
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(name, data)
}

// Parse reads the content of a file of that name. Its error is [Faults], sorted by place.
func Parse(name string, data []byte) (*Config, error) {
	sum := sha256.Sum256(data)
	c := &Config{File: name, Version: hex.EncodeToString(sum[:6])}
	d := newDecoder(document.New(name))
	if root := d.Document(data); root != nil {
		d.config(root, c)
	}
	if faults := document.Problems[Fault](d.Decoder); len(faults) > 0 {
		return nil, Faults(faults)
	}
	c.named, c.Platforms = d.named, d.platforms
	return c, nil
}

func (d *decoder) config(root *yaml.Node, c *Config) {
	var ruleNodes []*yaml.Node
	d.Mapping(root, "the file",
		document.Key("listen", "Addresses at which clients are accepted: HOST:PORT, or a mapping (default 127.0.0.1:8080).", func(n *yaml.Node) { d.List(n, func(n *yaml.Node) { d.listener(n, c) }) }),
		document.Key("upstream", "Services behind the gateway: a URL, or a mapping; the first that matches gets the request.", func(n *yaml.Node) { d.List(n, func(n *yaml.Node) { d.upstream(n, c) }) }),
		document.Key("admin", "Address of metrics, health, page and API, a mapping, or off (default 127.0.0.1:9090).", func(n *yaml.Node) { d.admin(n, &c.Admin) }),
		document.Key("store", "Where counters are kept: memory, or a mapping with memory or redis (default memory).", func(n *yaml.Node) { d.store(n, &c.Store) }),
		document.Key("client_ip", "How a client's address is found behind proxies.", func(n *yaml.Node) { d.clientIP(n, &c.ClientIP) }),
		document.Key("tokens", "How tokens (JWT) are verified; without it requests have no claims.", func(n *yaml.Node) { c.Tokens = d.tokens(n) }),
		document.Key("allow", "Networks of clients that are accepted; all others get 403 (default: all are accepted).", func(n *yaml.Node) { d.networks(n, &c.Allow) }),
		document.Key("deny", "Networks of clients that get 403, whatever allow says.", func(n *yaml.Node) { d.networks(n, &c.Deny) }),
		document.Key("fields", "Header fields of responses: draft-11, x-ratelimit, x-ratelimit-epoch or none (default draft-11).", func(n *yaml.Node) { d.headerFields(n, c) }),
		d.Number("max_delayed", "Requests delayed at once, over all rules (default 10000).", 1, 1_000_000, &c.MaxHeld),
		d.Number("abandoned", "Requests at once that continue after their client has left (default 1000).", 1, 1_000_000, &c.Abandoned),
		d.Number("max_delayed_per_key", "Requests of one key delayed at once (default: a tenth of max_delayed, at least 10).", 1, 1_000_000, &c.MaxHeldPerKey),
		d.Number("max_connections", "Connections of clients at once, at all listeners together (default 20000, fewer where file descriptors are).", 1, 10_000_000, &c.MaxConnections),
		document.Key("least_body_rate", "Least rate of a body that is waited for, in bytes a second, or off (default 240).", func(n *yaml.Node) { d.leastBodyRate(n, &c.LeastBodyRate) }),
		d.Number("max_read_ahead", "Bytes of bodies kept while their requests are delayed (default 64 MiB).", 1<<16, 1<<40, &c.MaxReadAhead),
		d.Number("nodes", "Least number of nodes that share the store: failure: local divides the limits by it while the store is unavailable (default 1).", 1, maxNodes, &c.Nodes),
		document.Key("exempt", "Clients that no rule applies to.", func(n *yaml.Node) {
			d.Mapping(n, "exempt", document.Key("networks", "Networks of clients that are not limited.", func(n *yaml.Node) { d.networks(n, &c.Exempt) }))
		}),
		document.Key("decision_log", "A line of JSON for each request: a file, stdout or stderr, or a mapping.", func(n *yaml.Node) { d.decisionLog(n, &c.DecisionLog) }),
		document.Key("access_log", "A line in the combined format for each request: a file, stdout or stderr, or a mapping.", func(n *yaml.Node) { d.accessLog(n, &c.AccessLog) }),
		document.Key("rules", "The rules; a request is charged under all that match.", func(n *yaml.Node) { ruleNodes = d.ruleNodes(n) }).Required(),
	)
	if d.Recording() {
		return
	}
	d.circles(root, c)
	if c.MaxHeldPerKey > cmp.Or(c.MaxHeld, defaultQueue) {
		d.Fault(document.Child(root, "max_delayed_per_key"), "max_delayed_per_key is more than the %d that are delayed in all; use a smaller number, or a larger max_delayed", cmp.Or(c.MaxHeld, defaultQueue))
	}
	if ruleNodes == nil && d.Count() == 0 {
		d.Fault(root, "no rules; add at least one under rules")
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
	if d.Count() == 0 && c.Tokens != nil && c.Tokens.Required && !claims {
		d.Fault(document.Child(document.Child(root, "tokens"), "required"), "no rule has a claim in its key or its tiers, so no request needs a token; leave required out, or write by: claim.sub")
	}
	if file := c.AccessLog.File; file != "" && file == c.DecisionLog.File && !isStream(file) {
		d.Fault(document.Child(root, "access_log"), "access_log is written to the file of decision_log; name another")
	}
	var err error
	c.Policy, err = policy.Compile(clean)
	if faults, ok := errors.AsType[policy.RuleErrors](err); ok {
		for _, f := range faults {
			d.Fault(locate(nodes[f.Rule], f.At), "%s", f.Problem)
		}
	}
	for i := range clean {
		d.neverAdmits(nodes[i], &clean[i])
	}
	if c.Policy != nil && len(clean) == len(rules) {
		d.listeners(c, nodes)
	}
	if d.Count() == 0 {
		d.sampledRule(root, c)
	}
}

// unknown finds claims and certificate names that no request can have.
func (d *decoder) unknown(c *Config) {
	if slices.ContainsFunc(c.Listen, func(l Listener) bool { return l.Serve == "api" || l.Serve == "resp" }) {
		return // their clients name both
	}
	certificates := slices.ContainsFunc(c.Listen, func(l Listener) bool { return !l.TCP() && l.ClientCAFile != "" })
	for _, at := range d.claims {
		switch {
		case at.of.Source == sourceClaim && c.Tokens == nil:
			d.Fault(at.node, "tokens are not verified, so no request has the claim %s; set tokens", at.of.Name)
		case at.of.Source == sourceCertificate && !certificates:
			d.Fault(at.node, "no listener asks for client certificates, so no request has %v; set in a listener tls: {cert: FILE, key: FILE, client_ca: FILE}", at.of)
		}
	}
}

// leastBodyRate reads bytes a second, or off.
func (d *decoder) leastBodyRate(n *yaml.Node, into *int64) {
	d.Words(n, "off")
	if n.Value == "off" {
		*into = -1
		return
	}
	d.Number("least_body_rate", "", 1, 1_000_000, into).Read(n)
}

// rest finds further faults of a rule that could be read in part: those of the policy in keys
// without other faults.
func (d *decoder) rest(r *policy.Rule, known []document.Fault, n *yaml.Node) {
	_, err := policy.Compile([]policy.Rule{*r})
	var faults policy.RuleErrors
	if !errors.As(err, &faults) {
		return
	}
	for _, f := range faults {
		at := locate(n, f.At)
		if at != n && !slices.ContainsFunc(known, func(f document.Fault) bool { return encloses(at, f) }) {
			d.Fault(at, "%s", f.Problem)
		}
	}
}

// encloses reports whether a fault lies within a node.
func encloses(n *yaml.Node, f document.Fault) bool {
	if n.Line == f.Line && (n.Column == f.Column || n.Kind == yaml.ScalarNode && n.Column <= f.Column) {
		return true
	}
	return slices.ContainsFunc(n.Content, func(n *yaml.Node) bool { return encloses(n, f) })
}

// ruleNodes returns the items of the list of rules.
func (d *decoder) ruleNodes(n *yaml.Node) (nodes []*yaml.Node) {
	nodes = []*yaml.Node{}
	at := n
	if n = d.Enter(n); n == nil {
		return nodes
	}
	if d.Items(n, func(n *yaml.Node) { d.newRuleReader().read(n, nil) }) {
		return nodes
	}
	if n.Kind != yaml.SequenceNode {
		d.Fault(at, "rules is %s; use a list, each rule behind a dash", document.Kind(n))
		return nodes
	}
	if len(n.Content) > maxRules {
		d.Fault(at, "%d rules; a file has at most %d", len(n.Content), maxRules)
		return nodes
	}
	for _, item := range n.Content {
		if item = d.Enter(item); item != nil {
			nodes = append(nodes, item)
		}
	}
	return nodes
}
