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

// Config is the content of a file. It may be used concurrently if no caller changes it.
type Config struct {
	File    string // name of the file, as given
	Version string // 12 hexadecimal digits that change with the file's content

	Listen    []Listener
	Upstreams []Upstream
	Admin     Admin
	Store     Store
	ClientIP  ClientIP
	Tokens    *Tokens        // nil: tokens are not verified, and requests have no claims
	Allow     []netip.Prefix // clients admitted; none: all
	Deny      []netip.Prefix // clients refused, whatever Allow says
	Exempt    []netip.Prefix // clients without limits; also in each rule
	MaxHeld   int64          // requests delayed at once, over all rules; zero: the default
	Abandoned int64          // requests at once that continue without their client; zero: the default
	// MaxHeldPerKey is the most requests delayed at once for one key; zero: a tenth of
	// MaxHeld, at least 10.
	MaxHeldPerKey int64
	// MaxReadAhead is the most bytes of bodies kept while their requests are delayed; zero:
	// the default.
	MaxReadAhead int64
	// MaxConnections is how many connections of clients are open at once at most, over all
	// listeners; zero: the default.
	MaxConnections int64
	// LeastBodyRate is the least rate of a body that is waited for, in bytes a second; zero:
	// the default; negative: any.
	LeastBodyRate int64
	// Nodes is the least number of nodes by which limits are divided while a shared store is
	// unavailable; zero: 1.
	Nodes       int64
	DecisionLog DecisionLog
	AccessLog   AccessLog
	// Fields are the header fields of responses: draft-11, x-ratelimit, x-ratelimit-epoch, or
	// none alone; empty: draft-11.
	Fields []string
	Policy *policy.Policy
	// Platforms has the names of the profiles of each rule that has any.
	Platforms map[string][]string

	lines    []int                     // line of each rule
	policies map[string]*policy.Policy // of listeners that name their rules, by address
	named    map[NamedFile]place
}

// Line returns the line of the policy's i-th rule.
func (c *Config) Line(i int) int { return c.lines[i] }

// byIP reports whether a part holds the client's address, by itself or among others.
func byIP(p policy.Part) bool {
	if parts := p.Parts(); len(parts) != 1 || parts[0] != p {
		return slices.ContainsFunc(parts, byIP)
	}
	return p.Source == policy.IP().Source
}

// RuleByIP returns the name of the first rule with the client's address in its key.
func (c *Config) RuleByIP() (name string, ok bool) {
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		if slices.ContainsFunc(r.Levels, func(l policy.Level) bool { return slices.ContainsFunc(l.By, byIP) }) {
			return r.Name, true
		}
	}
	return "", false
}

// Upstream is a server behind the gateway. A request goes to the first whose Host and Path
// match it.
type Upstream struct {
	URL     *url.URL
	Host    string        // in lower case; *.example.com: all subdomains; empty: any
	Path    string        // a prefix of whole segments; empty: any
	Timeout time.Duration // for the response's header; zero: the default
	// LongestRequest is the most time from a request's header to its response's last byte;
	// zero: no bound.
	LongestRequest time.Duration
	MaxBody        int64 // bytes of a request's body; zero: no bound
	// UpstreamHost sends the upstream's own name in Host instead of the client's.
	UpstreamHost bool
}

// Admin configures the operators' pages.
type Admin struct {
	Address   string // host:port; empty: the default; "off": none
	TokenFile string // file of a bearer token
	// Public lets Address be reachable from other machines without a token. The pages that
	// show or change keys are then omitted.
	Public bool
	// OverridesFile keeps the overrides made at run time; empty: they are in memory only.
	OverridesFile string
	AuditFile     string // every change is appended to it; empty: standard error
	// Hosts are the host names it answers to, in lower case, beside IP addresses, localhost
	// and the name in Address.
	Hosts []string
}

// Store configures the store of states. The zero Store is in this process.
type Store struct {
	Redis   string // URL of the servers, for package redisurl; empty: in this process
	Prefix  string // of keys in Redis; empty: the URL's, or the default
	MaxKeys int64  // in this process; zero: 1,048,576
	State   string // file written by a clean stop; empty: none
}

// ClientIP configures how the client's address is found.
type ClientIP struct {
	Trusted []netip.Prefix // proxies trusted to set Header
	Header  string         // empty: X-Forwarded-For
	// Hops is the place of the client's address in Header from the right, from 1; zero:
	// Trusted decides.
	Hops int64
	None bool // the file has an empty list trusted: there is no proxy
	Line int  // of the file, from 1; zero: the file has no client_ip
}

// Forwarding returns the networks of peers whose forwarding fields are passed on: with Hops,
// all networks.
func (c *ClientIP) Forwarding() []netip.Prefix {
	if c.Hops > 0 {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	return c.Trusted
}

// Tokens configures the verification of tokens, whose claims rules may use.
type Tokens struct {
	Header   string // empty: Authorization, with Bearer
	Cookie   string // instead of a header
	JWKS     string // file of a key set
	HMAC     string // file of a secret
	Key      string // file of a public key, PEM
	Issuer   string // required if not empty
	Audience string // required if not empty
	// Required refuses requests without a token where a rule needs a claim.
	Required bool
}
