// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// Listener is an address for clients. It may be used concurrently if no caller changes it.
type Listener struct {
	Address  string // host:port
	Serve    string // the kind of front: proxy, check, ext_authz, rls, api, resp or tcp; empty: proxy
	Upstream string // host:port, of TCP
	CertFile string // TLS, with KeyFile; empty: none
	KeyFile  string
	// ClientCAFile is a file of certificates of the authorities that sign clients'
	// certificates, which are then required; empty: clients are not asked for any.
	ClientCAFile string
	// ClientOptional admits clients without a certificate.
	ClientOptional bool
	ProxyProtocol  []netip.Prefix // peers whose connections begin with a PROXY protocol header
	// Name is the name in metrics and in the scope of Limits. It is Address for a TCP
	// listener, or one with Limits, that has no name.
	Name   string
	Limits TCPLimits // Bytes for TCP only

	// Allow and Deny are the networks of clients at this address, which are those of the Config
	// where the file does not say otherwise.
	Allow, Deny []netip.Prefix
	// MaxConnections is how many connections are open at once here at most; zero: as many as
	// at all listeners together.
	MaxConnections int64
	// LeastBodyRate is the least rate of a body that is waited for, in bytes a second; zero: that
	// of the Config; negative: any.
	LeastBodyRate int64
	// Original says where a proxy puts the request that a check decides: x-forwarded (or empty),
	// x-original or request.
	Original string
	// DeniedStatus is the status of a denial by a check; zero: that of the rule.
	DeniedStatus int64
	RLS          RLS // of serve: rls
	// Rules are the names of the rules that apply here; none: all.
	Rules []string
	// TokensFile is the file of the tokens of the front api; empty: none are needed.
	TokensFile string
	Line       int // of the file, from 1
}

// frontKind says what a kind of front has.
type frontKind struct {
	rules, bodies, responses bool
	decides                  bool // it answers with decisions and passes nothing on
}

// frontKinds are the kinds of fronts by their words.
var frontKinds = map[string]frontKind{
	"": {rules: true, bodies: true, responses: true}, "proxy": {rules: true, bodies: true, responses: true},
	"check": {rules: true, decides: true}, "api": {rules: true, decides: true}, "resp": {rules: true, decides: true}, "ext_authz": {rules: true, decides: true}, "rls": {decides: true}, "tcp": {},
}

// TCP reports whether bytes are forwarded without HTTP.
func (l *Listener) TCP() bool { return l.Serve == "tcp" }

// PolicyOf returns the rules that apply at a listener.
func (c *Config) PolicyOf(l *Listener) *policy.Policy { return cmp.Or(c.policies[l.Address], c.Policy) }

// TCPLimits are the limits of each client network at a listener. The zero TCPLimits limit
// nothing.
type TCPLimits struct {
	By          policy.Part      // an ip; the zero Part is the address
	Connections []sluice.Limit   // opened per time; connections above it are reset
	Open        sluice.SlotLimit // at once; a Cap of 0: any number
	Bytes       []sluice.Limit   // in both directions, over all connections; bytes above it wait
	Failure     sluice.Failure   // if the store is unavailable; closed: connections are reset
}

// Limited reports whether there is any limit.
func (l *TCPLimits) Limited() bool {
	return len(l.Connections) > 0 || len(l.Bytes) > 0 || l.Open.Cap > 0
}

// Scope returns the scope of the listener's limits. No rule can have this name.
func (l *Listener) Scope() string { return "tcp:" + l.Name }

// OpenScope returns the scope of Limits.Open.
func (l *Listener) OpenScope() string { return l.Scope() + "/open" }

// Plans compiles Limits.Connections and Limits.Bytes; a plan is nil without limits. There is
// no error after [Parse].
func (l *Listener) Plans() (connections, bytes *sluice.Plan, err error) {
	var faults []error
	compile := func(what string, limits []sluice.Limit) *sluice.Plan {
		if len(limits) == 0 {
			return nil
		}
		p, err := sluice.Compile(l.Scope()+"/"+what, limits...)
		if err != nil {
			faults = append(faults, err)
		}
		return p
	}
	connections, bytes = compile("connections", l.Limits.Connections), compile("bytes", l.Limits.Bytes)
	return connections, bytes, errors.Join(faults...)
}

var listenerName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

func (d *decoder) listener(n *yaml.Node, c *Config) {
	l := Listener{Line: n.Line}
	address := d.Scalar("listen", "", func(n *yaml.Node, s string) {
		l.Address = s
		d.address(n, "listen", s)
	})
	fields := []field{
		document.Key("address", "HOST:PORT.", address.Read),
		document.Key("serve", "The protocol: proxy passes HTTP requests on to upstreams, check answers proxies that ask whether a request may pass, ext_authz answers Envoy by its external authorization, rls by its Rate Limit Service, api answers in JSON whether described requests may run, resp answers clients of the Redis protocol, tcp passes bytes on (default proxy).", func(n *yaml.Node) {
			d.Choice(n, "serve", &l.Serve, "proxy", "check", "ext_authz", "rls", "api", "resp", "tcp")
		}),
		document.Key("original", "Where a proxy puts the request that serve: check decides: x-forwarded (X-Forwarded-Method, -Uri and -Host), x-original (X-Original-Method and -URI or -URL), or request, as it is (default x-forwarded).", func(n *yaml.Node) { d.Choice(n, "original", &l.Original, "x-forwarded", "x-original", "request") }),
		d.Number("denied_status", "Status of a denial under serve: check, where a proxy passes no other on (default: 429, or the rule's).", 400, 599, &l.DeniedStatus),
		document.Key("rls", "Limits and answers of serve: rls.", func(n *yaml.Node) { d.rls(n, &l.RLS) }),
		d.Scalar("upstream", "HOST:PORT behind a TCP listener.", func(n *yaml.Node, s string) {
			if d.address(n, "upstream", s) {
				l.Upstream = s
			}
		}),
		document.Key("tls", "Certificate of the listener, read again when its files change.", func(n *yaml.Node) { d.tls(n, &l) }),
		document.Key("proxy_protocol", "Networks of proxies whose connections begin with a PROXY protocol header.", func(n *yaml.Node) { d.networks(n, &l.ProxyProtocol) }),
		document.Key("allow", "Networks of clients that are accepted here (default: those of the file).", func(n *yaml.Node) { d.networks(n, &l.Allow) }),
		document.Key("deny", "Networks of clients that are refused here (default: those of the file).", func(n *yaml.Node) { d.networks(n, &l.Deny) }),
		d.Number("max_connections", "Connections open at once here, of those at all listeners (default: as many as these).", 1, 10_000_000, &l.MaxConnections),
		document.Key("least_body_rate", "Bytes a second at which a body must come that is waited for, or off (default: that of the file).", func(n *yaml.Node) { d.leastBodyRate(n, &l.LeastBodyRate) }),
		document.Key("rules", "Names of the rules that apply here (default: all).", func(n *yaml.Node) { d.Texts(n, "a rule", &l.Rules) }),
	}
	insecure := false
	fields = append(fields,
		d.Flag("insecure", "Serve decisions at an address that other machines reach, without certificates, and JSON without tokens (default false).", &insecure),
		d.path("tokens_file", "File of the tokens that clients of serve: api must have.", &l.TokensFile))
	var limits []*yaml.Node // for TCP only
	fields = append(fields, d.limitFields(&l)...)
	fields = append(fields, document.Key("bytes", "Limits of bytes in both directions, of a TCP listener; above them bytes wait.", func(n *yaml.Node) {
		limits = append(limits, n)
		l.Limits.Bytes = d.tcpLimits(n, "bytes")
	}))
	if d.MappingOr(n, "listen", address.Read, fields...) && l.Address == "" {
		d.Fault(n, "listen has no address; use address: 127.0.0.1:8080")
	}
	switch {
	case l.TCP() && l.Upstream == "":
		d.Fault(n, "a TCP listener needs an upstream of its own; use serve: tcp and upstream: host:port")
	case l.Upstream != "" && !l.TCP() && (l.Serve != "" || document.Child(n, "serve") == nil):
		d.Fault(document.Child(n, "upstream"), "an HTTP listener has no upstream of its own; move it to the top-level upstream, or use serve: tcp")
	}
	known := l.ClientCAFile != "" && !l.ClientOptional || l.CertFile != "" && l.TokensFile != ""
	switch open := frontKinds[l.Serve].decides && !loopback(l.Address) && !insecure && !known; {
	case open && (l.Serve == "api" || l.Serve == "resp"):
		d.Fault(n, "anybody who reaches %s could spend budgets; use a loopback address, tls with a tokens_file or client_ca, or insecure: true in a network of your own", l.Address)
	case open:
		d.Fault(n, "anybody who reaches %s could spend budgets; use a loopback address, tls with client_ca, or insecure: true in a network of your own", l.Address)
	}
	if l.Serve != "check" {
		for _, key := range []string{"original", "denied_status"} {
			if at := document.Child(n, key); at != nil {
				d.Fault(at, "%s is for serve: check; leave it out", key)
			}
		}
	}
	switch at := document.Child(n, "rls"); {
	case l.Serve == "rls" && at == nil:
		d.Fault(n, "serve: rls needs limits; use rls: {files: LIMITS.yaml}")
	case l.Serve != "rls" && at != nil:
		d.Fault(at, "rls is for serve: rls; leave it out")
	}
	if l.TCP() {
		for _, key := range []string{"rules", "least_body_rate"} {
			if at := document.Child(n, key); at != nil {
				d.Fault(at, "%s is for HTTP; limit TCP by connections, open and bytes", key)
			}
		}
	}
	if at := document.Child(n, "least_body_rate"); l.Serve == "resp" && at != nil {
		d.Fault(at, "least_body_rate is for HTTP, and commands have no bodies; leave it out")
	}
	if at := document.Child(n, "tokens_file"); at != nil && l.Serve != "api" && l.Serve != "resp" {
		d.Fault(at, "tokens_file is for serve: api and serve: resp; leave it out")
	}
	for _, n := range limits {
		if !l.TCP() && l.Address != "" {
			d.Fault(n, "is for TCP listeners; limit the bytes of HTTP in a rule with shape, or use serve: tcp")
		}
	}
	if l.Name == "" && (l.TCP() || l.Limits.Limited()) {
		l.Name = l.Address
	}
	if !l.Limits.Limited() && (l.Limits.By != policy.Part{} || l.Limits.Failure != sluice.FailOpen) {
		d.Fault(n, "by and failure need a limit; set connections, open or bytes")
	}
	if slices.ContainsFunc(c.Listen, func(o Listener) bool { return o.Address == l.Address }) && l.Address != "" {
		d.Fault(n, "%s is the address of another listener; use another address", l.Address)
	}
	if i := slices.IndexFunc(c.Listen, func(o Listener) bool { return o.Name == l.Name }); i >= 0 && l.Name != "" && l.Name != l.Address {
		d.Fault(n, "%q is the name of the listener on line %d, too; listeners of one name would share a budget: choose another", l.Name, c.Listen[i].Line)
	}
	c.Listen, d.listens = append(c.Listen, l), append(d.listens, n)
}

// listeners finishes the listeners, once the rules are known.
func (d *decoder) listeners(c *Config, nodes []*yaml.Node) {
	for i := range c.Listen {
		l := &c.Listen[i]
		if l.Allow == nil {
			l.Allow = c.Allow
		}
		if l.Deny == nil {
			l.Deny = c.Deny
		}
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; len(l.Rules) > 0 && frontKinds[l.Serve].rules {
			d.listenerRules(c, l, document.Child(d.listens[i], "rules"))
		}
	}
	d.unheard(c, nodes)
	for i := range c.Listen {
		if l := &c.Listen[i]; l.Serve == "check" && l.Original != "request" && len(c.ClientIP.Forwarding()) == 0 {
			d.Fault(d.listens[i], "serve: check decides requests that a proxy describes, and no proxy is trusted; list their networks in client_ip: {trusted: NETWORK}")
		}
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; len(l.Rules) == 0 || c.policies[l.Address] != nil {
			d.unserved(d.listens[i], c, l, frontKinds[l.Serve])
		}
	}
}

// unheard finds rules that apply at no listener.
func (d *decoder) unheard(c *Config, nodes []*yaml.Node) {
	applies := make(map[string]bool)
	for i := range c.Listen {
		if l := &c.Listen[i]; frontKinds[l.Serve].rules {
			if len(l.Rules) == 0 {
				return
			}
			for _, name := range l.Rules {
				applies[name] = true
			}
		}
	}
	for i := range c.Policy.Rules() {
		if name := c.Policy.Rules()[i].Name; len(applies) > 0 && !applies[name] {
			d.Fault(nodes[i], "rule %q applies at no listener; add it to the rules of one, or remove it", name)
		}
	}
}

// unserved finds rules that a listener of a kind cannot serve.
func (d *decoder) unserved(n *yaml.Node, c *Config, l *Listener, k frontKind) {
	all := c.PolicyOf(l).Rules()
	for i := range all {
		why := all[i].Unserved(k.bodies, k.responses)
		if why == "" && !k.bodies && all[i].Cost.Of == policy.RequestBytes {
			why = "counts bytes of bodies, and there are none here; let it count requests"
		}
		if k.rules && why != "" {
			d.Fault(n, "rule %q %s; or name the other rules under rules of this listener", all[i].Name, why)
		}
	}
}

// listenerRules compiles the rules that apply at a listener.
func (d *decoder) listenerRules(c *Config, l *Listener, at *yaml.Node) {
	for i, name := range l.Rules {
		j, there := c.Policy.RuleOf(name)
		switch {
		case !there || c.Policy.Rules()[j].Name != name:
			d.Fault(item(at, i), "no rule has the name %q; use one of those under rules", document.Shorten(name))
		case slices.Contains(l.Rules[:i], name):
			d.Fault(item(at, i), "%q is named twice; name it once", name)
		}
	}
	if d.Count() == 0 {
		if c.policies == nil {
			c.policies = make(map[string]*policy.Policy)
		}
		var err error
		rules := slices.DeleteFunc(slices.Clone(c.Policy.Rules()), func(r policy.Rule) bool { return !slices.Contains(l.Rules, r.Name) })
		if c.policies[l.Address], err = policy.Compile(rules); err != nil {
			d.Fault(at, "%v", err)
		}
	}
}

// tls reads the certificates of a listener and of its clients' authorities.
func (d *decoder) tls(n *yaml.Node, l *Listener) {
	var clients string
	d.Mapping(n, "tls", d.path("cert", "File of the certificate chain, PEM.", &l.CertFile).Required(), d.path("key", "File of its private key, PEM.", &l.KeyFile).Required(), d.path("client_ca", "File of the authorities that sign clients' certificates; clients are asked for one.", &l.ClientCAFile),
		document.Key("client_cert", "Whether clients must have a certificate: required or optional (default required).", func(n *yaml.Node) { d.Choice(n, "client_cert", &clients, "required", "optional") }))
	if l.CertFile == "" || l.KeyFile == "" {
		d.Fault(n, "tls needs a cert and a key; set both files")
	}
	if clients != "" && l.ClientCAFile == "" {
		d.Fault(n, "client_cert is %s, but there is no client_ca; set client_ca to a file of certificates", clients)
	}
	l.ClientOptional = clients == "optional"
}

// circles finds upstreams and an admin address that are the address of a listener.
func (d *decoder) circles(root *yaml.Node, c *Config) {
	for i := range c.Listen {
		at := c.Listen[i].Address
		if strings.HasSuffix(at, ":0") { // any free port
			continue
		}
		if at != "" && c.Admin.Address == at {
			d.Fault(document.Child(root, "admin"), "%s is the address of a listener, too; give it another port", at)
		}
		if !c.Listen[i].TCP() && slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.URL != nil && u.URL.Host == at }) {
			d.Fault(document.Child(root, "upstream"), "%s is an address of sluice itself, so requests would loop; use the service's own address", at)
		}
	}
}

// limitFields returns the keys of the limits of connections.
func (d *decoder) limitFields(l *Listener) []field {
	return []field{
		d.Scalar("name", "Name in metrics and of the budgets (default: the address).", func(n *yaml.Node, s string) {
			if !listenerName.MatchString(s) {
				d.Fault(n, "name is %q; use 1 to 64 of a-z, 0-9, '.', '_' and '-'", document.Shorten(s))
			}
			l.Name = s
		}),
		d.Scalar("by", "Key of a connection: ip, or ip/24/48 (default ip).", func(n *yaml.Node, s string) {
			p, err := policy.ParsePart(s)
			switch {
			case err == nil && p.Source == sourceIP:
				l.Limits.By = p
			case err != nil && strings.HasPrefix(s, "ip"):
				d.Fault(n, "%v", err)
			default:
				d.Fault(n, "by is %q, but a TCP connection has an address only; use ip, or ip/24/48", document.Shorten(s))
			}
		}),
		document.Key("connections", "Limits of connections opened, such as 10/s burst 20; above them connections are reset.", func(n *yaml.Node) { l.Limits.Connections = d.tcpLimits(n, "connections") }),
		document.Key("open", "Connections open at once for each key, a number or {cap, ttl}.", func(n *yaml.Node) {
			if s := d.slots(n, "open", "connections may be open", "Connections at once.", "How long those of a gateway that died count (default 1m)."); s != nil {
				l.Limits.Open = *s
			}
		}),
		document.Enum(d.Decoder, "failure", "What happens while the store is unavailable: open, local or closed (default open).", &l.Limits.Failure, failures...),
	}
}

// tcpLimits reads limits of connections or bytes.
func (d *decoder) tcpLimits(n *yaml.Node, what string) (limits []sluice.Limit) {
	before := d.Count()
	d.List(n, func(n *yaml.Node) {
		for _, limit := range d.limitList(n, like{}) {
			f := limit.Filled()
			switch {
			case limit.Grace != nil:
				d.Fault(n, "a soft limit warns, and TCP cannot carry a warning; use a hard limit")
			case what == "connections" && f.Unit != sluice.Requests:
				d.Fault(n, "counts %v; use a limit of connections, such as 10/s burst 20, and put limits of bytes under bytes", f.Unit)
			case what == "bytes" && f.Unit != sluice.Bytes:
				d.Fault(n, "counts connections; use a limit of bytes, such as 100MB/min burst 1MB")
			case what == "connections" && algo.WorstOf(f).Delay > 0:
				d.Fault(n, "%v delays, but a connection is let in at once or not at all; use nodelay behind it", limit)
			case what == "bytes":
				if p := policy.Unshapeable(f, 0); p != "" {
					d.Fault(n, "%v %s", limit, p)
				}
			}
			limits = append(limits, limit.Limit)
		}
	})
	if d.Count() > before {
		return limits
	}
	if _, err := sluice.Compile(what, limits...); err != nil {
		for _, err := range flatten(err) {
			d.Fault(n, "%v", err)
		}
	}
	return limits
}
