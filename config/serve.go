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

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/config/upstream"
	"github.com/sluicegate/sluice/policy"
)

// headerFields reads the header fields of responses. Both means draft-11 and x-ratelimit.
func (d *decoder) headerFields(n *yaml.Node, c *Config) {
	d.List(n, func(n *yaml.Node) {
		var word string
		switch d.Choice(n, "fields", &word, "draft-11", "x-ratelimit", "x-ratelimit-epoch", "none", "both"); word {
		case "":
		case "both":
			c.Fields = append(c.Fields, "draft-11", "x-ratelimit")
		default:
			c.Fields = append(c.Fields, word)
		}
	})
	has := func(word string) bool { return slices.Contains(c.Fields, word) }
	if has("none") && len(c.Fields) > 1 || has("x-ratelimit") && has("x-ratelimit-epoch") {
		d.Fault(n, "fields exclude each other; use none without others, and one of x-ratelimit and x-ratelimit-epoch")
	}
}

// networks reads one or more networks; an address is a network of its own.
func (d *decoder) networks(n *yaml.Node, into *[]netip.Prefix) {
	d.Each(n, "a network", func(n *yaml.Node, s string) {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); aerr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil:
			d.Fault(n, "%q is not a network; use an address with the length of its prefix, such as 10.0.0.0/8", document.Shorten(s))
		case p.Masked() != p:
			d.Fault(n, "%s has bits behind its prefix; use %v, or a longer prefix", s, p.Masked())
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
	d.Fault(n, "%s is %q; use a host and a port, such as 127.0.0.1:8080", what, document.Shorten(s))
	return false
}

func (d *decoder) upstream(n *yaml.Node, c *Config) {
	var u Upstream
	before := d.Count()
	url := d.Scalar("upstream", "", func(n *yaml.Node, s string) {
		v, err := upstream.Parse(s)
		if err != nil {
			d.Fault(n, "upstream %v", err)
			return
		}
		u.URL = v
	})
	d.MappingOr(n, "upstream", url.Read,
		document.Key("url", "http://, https:// or h2c:// and HOST:PORT.", url.Read),
		d.Scalar("host", "Host of the requests that it gets; *.example.com for all below (default: any).", func(n *yaml.Node, s string) {
			var err error
			if u.Host, err = policy.ParseHost(s); err != nil {
				d.Fault(n, "%v", err)
			}
		}),
		d.Scalar("path", "Prefix of the paths that it gets (default: any).", func(n *yaml.Node, s string) {
			var err error
			if u.Path, err = upstream.ParsePath(s); err != nil {
				d.Fault(n, "path %v", err)
			}
		}),
		d.Duration("timeout", "How long to wait for the response's header (default 60s).", time.Millisecond, 24*time.Hour, &u.Timeout),
		d.Duration("longest_request", "How long a request may take, from its header to the response's last byte (default: any time).", time.Millisecond, 24*time.Hour, &u.LongestRequest),
		d.Number("max_body", "Longest body of a request, in bytes (default: any).", 1, 1<<50, &u.MaxBody),
		d.Flag("upstream_host", "Send the upstream's own name in Host, not the client's (default false).", &u.UpstreamHost),
	)
	if u.LongestRequest > 0 && u.Timeout > u.LongestRequest {
		d.Fault(document.Child(n, "timeout"), "timeout is %v, but a request ends after longest_request, %v; use a timeout that is no longer", u.Timeout, u.LongestRequest)
	}
	if u.URL == nil && d.Count() == before {
		d.Fault(n, "upstream has no url; use url: http://127.0.0.1:3000")
	}
	if d.Count() > before {
		c.Upstreams = append(c.Upstreams, Upstream{}) // there is an upstream, although it is faulty
		return
	}
	for _, o := range c.Upstreams {
		if o.URL != nil && u.URL != nil && o.Takes(u.Host, u.Path) {
			d.Fault(n, "never gets a request, as an upstream before it takes every one; put the narrower first")
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
	address := d.Scalar("admin", "", func(n *yaml.Node, s string) {
		if s == "off" || d.address(n, "admin", s) {
			a.Address = s
		}
	})
	d.MappingOr(n, "admin", address.Read, document.Key("address", "HOST:PORT, or off.", address.Read), d.path("token_file", "File of the secret that allows changes and keys in clear.", &a.TokenFile),
		d.Flag("public", "Serve only metrics and health, at an address that other machines can reach (default false).", &a.Public), d.path("overrides_file", "File that keeps the overrides of sluice key over a restart.", &a.OverridesFile), d.path("audit_file", "File to which each change is appended (default: standard error).", &a.AuditFile),
		document.Key("hosts", "Names in the Host of requests, beside IP addresses and localhost.", func(n *yaml.Node) { d.adminHosts(n, a) }))
	if a.Address == "" || a.Address == "off" || a.TokenFile != "" || a.Public {
		return
	}
	if !loopback(a.Address) {
		d.Fault(n, "admin at %s can be reached from other machines; use a loopback address, a token_file that holds a secret, or public: true for pages without keys", a.Address)
	}
}

// loopback reports whether host:port is reachable from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, perr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || perr == nil && ip.IsLoopback())
}

func (d *decoder) adminHosts(n *yaml.Node, a *Admin) {
	d.Each(n, "hosts", func(n *yaml.Node, s string) {
		host, err := ParseAdminHost(s)
		if err != nil {
			d.Fault(n, "hosts: %v", err)
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
		return "", fmt.Errorf("%q is not a name; use one such as sluice.example.com, without a port", document.Shorten(text))
	case aerr == nil:
		return "", fmt.Errorf("%v is an address, and addresses are always accepted; leave it out, and list names only", addr)
	}
	return host, nil
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,256}$`)

func (d *decoder) clientIP(n *yaml.Node, c *ClientIP) {
	c.Line = n.Line
	d.Mapping(n, "client_ip",
		document.Key("trusted", "Networks of trusted proxies; [] means that there are none.", func(n *yaml.Node) {
			if c.None = n.Kind == yaml.SequenceNode && len(n.Content) == 0 && !d.Recording(); !c.None {
				d.networks(n, &c.Trusted)
			}
		}),
		d.Word("header", "Header field in which they name the client (default X-Forwarded-For).", &c.Header),
		d.Number("hops", "Position of the client's address in the header, counted from the right, whatever the proxies' addresses; excludes trusted.", 1, maxHops, &c.Hops),
	)
	if c.Hops > 0 && (len(c.Trusted) > 0 || c.None) {
		d.Fault(document.Child(n, "hops"), "hops and trusted exclude each other; use trusted if the proxies' networks are known")
	}
	if c.Header != "" && !headerForm.MatchString(c.Header) {
		d.Fault(document.Child(n, "header"), "header is %q; use a header's name, such as X-Forwarded-For", document.Shorten(c.Header))
	}
	if c.Header != "" && len(c.Trusted) == 0 && c.Hops == 0 {
		d.Fault(n, "header has no effect without trusted proxies; list their networks under trusted, or set hops")
	}
}

func (d *decoder) tokens(n *yaml.Node) *Tokens {
	t := &Tokens{}
	d.Mapping(n, "tokens",
		d.Word("header", "Header field with the token (default Authorization, behind Bearer).", &t.Header), d.Word("cookie", "Cookie with the token, instead of a header field.", &t.Cookie),
		d.path("jwks_file", "File of the keys, as a JWK set.", &t.JWKS), d.path("hmac_file", "File of the secret, for HS256, HS384 and HS512.", &t.HMAC), d.path("key_file", "File of a public key, PEM.", &t.Key),
		d.Word("issuer", "Required value of iss (default: any).", &t.Issuer), d.Word("audience", "Required value in aud (default: any).", &t.Audience),
		d.Flag("required", "Requests without a token get 401 where a rule has a claim (default false).", &t.Required),
	)
	keys := 0
	for _, f := range []string{t.JWKS, t.HMAC, t.Key} {
		if f != "" {
			keys++
		}
	}
	if keys != 1 {
		d.Fault(n, "tokens are verified by one of jwks_file, hmac_file and key_file; use one")
	}
	if t.Header != "" && t.Cookie != "" {
		d.Fault(n, "a token is in a header or in a cookie; use one")
	}
	return t
}
