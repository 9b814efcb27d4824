// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// Config is what a file says.
type Config struct {
	File    string // its name, as given
	Version string // 12 hexadecimal digits that change with the file's bytes

	Listen    []Listener
	Upstreams []Upstream
	Admin     Admin
	Store     Store
	ClientIP  ClientIP
	Tokens    *Tokens        // nil: no token is verified, and no claim known
	Allow     []netip.Prefix // clients let in; none: all
	Deny      []netip.Prefix // clients turned away, whatever Allow says
	Exempt    []netip.Prefix // clients to whom no limit applies; the rules have it, too
	MaxHeld   int64          // requests delayed at once, over all rules; zero: the gateway's default
	Abandoned int64          // requests waited for at once whose client has left; zero: the gateway's default
	// MaxHeldPerKey are those of one key; zero: a tenth of MaxHeld, and at least 10.
	MaxHeldPerKey int64
	// MaxReadAhead is how many bytes of bodies are kept while their requests are
	// delayed; zero: the gateway's default.
	MaxReadAhead int64
	// MaxConnections is how many connections of clients are open at once, at all
	// listeners together; zero: the gateway's default.
	MaxConnections int64
	// LeastBodyRate is how many bytes a second a client must send of a body that is
	// waited for; zero: the gateway's default; negative: any number.
	LeastBodyRate int64
	// Nodes is among how many nodes at least limits are divided while a shared store is
	// unavailable; zero: 1.
	Nodes       int64
	DecisionLog DecisionLog
	AccessLog   AccessLog
	Fields      []string // header fields of the answers: some of [FieldWords]; none: draft-11
	Policy      *policy.Policy

	lines     []int // of each rule
	named     map[NamedFile]place
	platforms map[string][]string // the profiles of each rule that has any
}

// Line returns where the i-th rule of the policy stands.
func (c *Config) Line(i int) int { return c.lines[i] }

// RuleByIP returns the name of the first rule whose key has the client's address.
func (c *Config) RuleByIP() (name string, ok bool) {
	for i := range c.Policy.Len() {
		r := c.Policy.Rule(i)
		for j := range r.Levels {
			if slices.ContainsFunc(r.Levels[j].By, policy.Part.ByIP) {
				return r.Name, true
			}
		}
	}
	return "", false
}

// Upstream is a server behind the gateway. The first whose Host and Path fit a
// request gets it.
type Upstream struct {
	URL     *url.URL
	Host    string        // in lower case; *.example.com: all below; empty: any
	Path    string        // a prefix of whole segments; empty: any
	Timeout time.Duration // until the response's header; zero: the gateway's default
	// LongestRequest is from a request's header to its response's last byte; zero: no
	// bound.
	LongestRequest time.Duration
	MaxBody        int64 // bytes of a request's body; zero: no bound
	// UpstreamHost sends the upstream's own name in Host, not the client's.
	UpstreamHost bool
}

// Admin is the address of the operator's pages.
type Admin struct {
	Address   string // host:port; empty: the program's default; "off": none
	TokenFile string // holds a bearer token
	// Public lets Address be one that other machines can reach, without a token:
	// what shows keys and changes them is not there then.
	Public bool
	// OverridesFile keeps the overrides made while running; empty: they are in
	// memory only.
	OverridesFile string
	AuditFile     string // to which every change is appended; empty: standard error
	// Hosts are the names by which it answers beside an IP address, localhost
	// and the name in Address, in lower case.
	Hosts []string
}

// Store is where states live. The zero Store is in this process.
type Store struct {
	Redis   string // where the servers are, as package redisurl reads it; empty: in this process
	Prefix  string // of keys in Redis; empty: the URL's, or the default
	MaxKeys int64  // in this process; zero: 1,048,576
	State   string // file to which a clean stop writes; empty: none
}

// ClientIP says how the client's address is found.
type ClientIP struct {
	Trusted []netip.Prefix // proxies whose Header is trusted
	Header  string         // empty: X-Forwarded-For
	// Hops is which address of the Header from the right is the client's, from 1; zero: Trusted says it.
	Hops int64
	None bool // the file says that there is no proxy: Trusted is an empty list there

	line int
}

// Forwarding returns the networks of peers whose fields for the client are passed on: with
// Hops every peer is a proxy.
func (c *ClientIP) Forwarding() []netip.Prefix {
	if c.Hops > 0 {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	return c.Trusted
}

// Tokens says how a request's token is verified, so that its claims may be used.
type Tokens struct {
	Header   string // empty: Authorization, with Bearer
	Cookie   string // instead of a header
	JWKS     string // file of a key set
	HMAC     string // file of a secret
	Key      string // file of a public key, PEM
	Issuer   string // required if not empty
	Audience string // required if not empty
	// Required refuses requests without a token of which a rule needs a claim.
	Required bool
}
