// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
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
	TCP      bool   // bytes are forwarded without HTTP
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
	Line   int       // of the file, from 1
}

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
		l.Address, l.TCP = strings.CutPrefix(s, "tcp://")
		d.address(n, "listen", l.Address)
	})
	fields := []field{
		document.Key("address", "HOST:PORT, or tcp://HOST:PORT for connections without HTTP.", address.Read),
		d.Scalar("upstream", "HOST:PORT behind a TCP listener.", func(n *yaml.Node, s string) {
			if d.address(n, "upstream", s) {
				l.Upstream = s
			}
		}),
		document.Key("tls", "Certificate of the listener, read again when its files change.", func(n *yaml.Node) { d.tls(n, &l) }),
		document.Key("proxy_protocol", "Networks of proxies whose connections begin with a PROXY protocol header.", func(n *yaml.Node) { d.networks(n, &l.ProxyProtocol) }),
	}
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
	case l.TCP && l.Upstream == "":
		d.Fault(n, "a TCP listener needs an upstream of its own; use address: tcp://… and upstream: host:port")
	case !l.TCP && l.Upstream != "":
		d.Fault(n, "an HTTP listener has no upstream of its own; move it to the top-level upstream")
	}
	for _, n := range limits {
		if !l.TCP && l.Address != "" {
			d.Fault(n, "is for TCP listeners; limit the bytes of HTTP in a rule with shape, or use address: tcp://…")
		}
	}
	if l.Name == "" && (l.TCP || l.Limits.Limited()) {
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
	c.Listen = append(c.Listen, l)
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
		if !c.Listen[i].TCP && slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.URL != nil && u.URL.Host == at }) {
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
