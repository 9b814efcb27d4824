// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/upstream"
	"github.com/sluicegate/sluice/policy"
)

func (d *decoder) choice(n *yaml.Node, what string, into *string, choices ...string) {
	s, ok := d.text(n, what)
	d.recorded.words(n, choices...)
	if ok && !slices.Contains(choices, s) {
		d.fault(n, "%s is %q; use one of %s", what, shorten(s), strings.Join(choices, ", "))
		return
	}
	*into = s
}

// enum returns a field with one of the choices, which are in the order of their values.
func enum[T ~uint8](d *decoder, name string, into *T, choices ...string) field {
	return field{name, func(n *yaml.Node) {
		var word string
		d.choice(n, name, &word, choices...)
		*into = T(max(slices.Index(choices, word), 0))
	}}
}

// FieldWords are the words of Config.Fields. A file may also say both, which means draft-11
// and x-ratelimit.
var FieldWords = []string{"draft-11", "x-ratelimit", "x-ratelimit-epoch", "none"}

// headerFields reads the header fields of responses.
func (d *decoder) headerFields(n *yaml.Node, c *Config) {
	d.list(n, func(n *yaml.Node) {
		var word string
		switch d.choice(n, "fields", &word, append(slices.Clone(FieldWords), "both")...); word {
		case "":
		case "both":
			c.Fields = append(c.Fields, "draft-11", "x-ratelimit")
		default:
			c.Fields = append(c.Fields, word)
		}
	})
	has := func(word string) bool { return slices.Contains(c.Fields, word) }
	if has("none") && len(c.Fields) > 1 || has("x-ratelimit") && has("x-ratelimit-epoch") {
		d.fault(n, "fields exclude each other; use none without others, and one of x-ratelimit and x-ratelimit-epoch")
	}
}

// networks reads one or more networks; an address is a network of its own.
func (d *decoder) networks(n *yaml.Node, into *[]netip.Prefix) {
	d.each(n, "a network", func(n *yaml.Node, s string) {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); aerr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil:
			d.fault(n, "%q is not a network; use an address with the length of its prefix, such as 10.0.0.0/8", shorten(s))
		case p.Masked() != p:
			d.fault(n, "%s has bits behind its prefix; use %v, or a longer prefix", s, p.Masked())
		default:
			*into = append(*into, p)
		}
	})
}

// address reads host:port.
func (d *decoder) address(n *yaml.Node, what, s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		if p, perr := strconv.ParseUint(port, 10, 16); perr == nil && port == strconv.FormatUint(p, 10) && !strings.ContainsAny(host, " /") {
			return true
		}
	}
	d.fault(n, "%s is %q; use a host and a port, such as 127.0.0.1:8080", what, shorten(s))
	return false
}

func (d *decoder) upstream(n *yaml.Node, c *Config) {
	var u Upstream
	before := len(d.faults)
	url := d.scalar("upstream", func(n *yaml.Node, s string) {
		v, err := upstream.Parse(s)
		if err != nil {
			d.fault(n, "upstream %v", err)
			return
		}
		u.URL = v
	})
	d.mappingOr(n, "upstream", url.read,
		field{"url", url.read},
		d.scalar("host", func(n *yaml.Node, s string) {
			var err error
			if u.Host, err = policy.ParseHost(s); err != nil {
				d.fault(n, "%v", err)
			}
		}),
		d.scalar("path", func(n *yaml.Node, s string) {
			var err error
			if u.Path, err = upstream.ParsePath(s); err != nil {
				d.fault(n, "path %v", err)
			}
		}),
		d.duration("timeout", time.Millisecond, 24*time.Hour, &u.Timeout),
		d.duration("longest_request", time.Millisecond, 24*time.Hour, &u.LongestRequest),
		d.number("max_body", 1, 1<<50, &u.MaxBody),
		d.flag("upstream_host", &u.UpstreamHost),
	)
	if u.LongestRequest > 0 && u.Timeout > u.LongestRequest {
		d.fault(child(n, "timeout"), "timeout is %v, but a request ends after longest_request, %v; use a timeout that is no longer", u.Timeout, u.LongestRequest)
	}
	if u.URL == nil && len(d.faults) == before {
		d.fault(n, "upstream has no url; use url: http://127.0.0.1:3000")
	}
	if len(d.faults) > before {
		c.Upstreams = append(c.Upstreams, Upstream{}) // an upstream is given, though a faulty one
		return
	}
	for _, o := range c.Upstreams {
		if o.URL != nil && u.URL != nil && o.Takes(u.Host, u.Path) {
			d.fault(n, "never gets a request, as an upstream before it takes every one; put the narrower first")
			break
		}
	}
	c.Upstreams = append(c.Upstreams, u)
}

// Takes reports whether the upstream's Host and Path match every request for a host, which may
// be *.example.com, and a path prefix.
func (u *Upstream) Takes(host, path string) bool {
	under, wild := strings.CutPrefix(u.Host, "*")
	ofHost := u.Host == "" || u.Host == host || wild && strings.HasSuffix(host, under)
	prefix := strings.TrimSuffix(u.Path, "/")
	return ofHost && (path == prefix || strings.HasPrefix(path, prefix+"/") || prefix == "")
}

func (d *decoder) admin(n *yaml.Node, a *Admin) {
	address := d.scalar("admin", func(n *yaml.Node, s string) {
		if s == "off" || d.address(n, "admin", s) {
			a.Address = s
		}
	})
	d.mappingOr(n, "admin", address.read, field{"address", address.read}, d.path("token_file", &a.TokenFile),
		d.flag("public", &a.Public), d.path("overrides_file", &a.OverridesFile), d.path("audit_file", &a.AuditFile),
		field{"hosts", func(n *yaml.Node) { d.adminHosts(n, a) }})
	if a.Address == "" || a.Address == "off" || a.TokenFile != "" || a.Public {
		return
	}
	if !loopback(a.Address) {
		d.fault(n, "admin at %s can be reached from other machines; use a loopback address, a token_file that holds a secret, or public: true for pages without keys", a.Address)
	}
}

// loopback reports whether host:port is reachable from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, perr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || perr == nil && ip.IsLoopback())
}

func (d *decoder) adminHosts(n *yaml.Node, a *Admin) {
	d.each(n, "hosts", func(n *yaml.Node, s string) {
		host, err := ParseAdminHost(s)
		if err != nil {
			d.fault(n, "hosts: %v", err)
			return
		}
		a.Hosts = append(a.Hosts, host)
	})
}

// ParseAdminHost returns one of [Admin.Hosts] in the form in which it is compared. A text
// that is not a host name is an error.
func ParseAdminHost(text string) (string, error) {
	host, err := policy.ParseHost(text)
	addr, aerr := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case err != nil || strings.HasPrefix(host, "*"):
		return "", fmt.Errorf("%q is not a name; use one such as sluice.example.com, without a port", shorten(text))
	case aerr == nil:
		return "", fmt.Errorf("%v is an address, and addresses are always accepted; leave it out, and list names only", addr)
	}
	return host, nil
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,256}$`)

func (d *decoder) clientIP(n *yaml.Node, c *ClientIP) {
	c.Line = n.Line
	d.mapping(n, "client_ip",
		field{"trusted", func(n *yaml.Node) {
			if c.None = n.Kind == yaml.SequenceNode && len(n.Content) == 0 && d.recorded == nil; !c.None {
				d.networks(n, &c.Trusted)
			}
		}},
		d.word("header", &c.Header),
		d.number("hops", 1, maxHops, &c.Hops),
	)
	if c.Hops > 0 && (len(c.Trusted) > 0 || c.None) {
		d.fault(child(n, "hops"), "hops and trusted exclude each other; use trusted if the proxies' networks are known")
	}
	if c.Header != "" && !headerForm.MatchString(c.Header) {
		d.fault(child(n, "header"), "header is %q; use a header's name, such as X-Forwarded-For", shorten(c.Header))
	}
	if c.Header != "" && len(c.Trusted) == 0 && c.Hops == 0 {
		d.fault(n, "header has no effect without trusted proxies; list their networks under trusted, or set hops")
	}
}

func (d *decoder) tokens(n *yaml.Node) *Tokens {
	t := &Tokens{}
	d.mapping(n, "tokens",
		d.word("header", &t.Header), d.word("cookie", &t.Cookie),
		d.path("jwks_file", &t.JWKS), d.path("hmac_file", &t.HMAC), d.path("key_file", &t.Key),
		d.word("issuer", &t.Issuer), d.word("audience", &t.Audience),
		d.flag("required", &t.Required),
	)
	keys := 0
	for _, f := range []string{t.JWKS, t.HMAC, t.Key} {
		if f != "" {
			keys++
		}
	}
	if keys != 1 {
		d.fault(n, "tokens are verified by one of jwks_file, hmac_file and key_file; use one")
	}
	if t.Header != "" && t.Cookie != "" {
		d.fault(n, "a token is in a header or in a cookie; use one")
	}
	return t
}
