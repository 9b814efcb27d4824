// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// zone is a limit_req_zone or a limit_conn_zone.
type zone struct {
	conn   bool // of requests in flight
	name   string
	at     *directive
	by     []string // in sluice's form; none: one budget for all
	share  bool     // a request without a part of the key is limited, too
	exempt []string // networks
	only   []string // networks, if only these are limited
	rate   rate
	used   bool
	lost   bool // its key or rate cannot be kept
}

var (
	headerForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	variableForm = regexp.MustCompile(`\$(?:\{([^}]*)\}|(\w+))`)
)

// survey finds the zones, maps and unknown directives of http.
func (c *converter) survey(http []*directive) {
	for _, d := range http {
		if n := len(d.args); n > 0 && (d.name == "geo" || d.name == "map") {
			c.tables[d.name+" "+bare(d.args[n-1])] = d
		}
	}
	for _, d := range http {
		if d.name == "limit_req_zone" || d.name == "limit_conn_zone" {
			c.define(d)
		}
	}
}

func walk(tree []*directive, visit func(*directive)) {
	for _, d := range tree {
		visit(d)
		walk(d.block, visit)
	}
}

// client is how a client's address is found.
type client struct {
	trusted []string // proxies
	header  string
}

// realIP reads how a location finds a client's address: all limited locations must agree.
func (c *converter) realIP(l *location) {
	own, d := &client{}, l.d
	header, recursive := l.value("real_ip_header", "X-Real-IP"), l.value("real_ip_recursive", "off") == "on"
	for _, d = range l.effective("set_real_ip_from") {
		p, ok := network(d.arg(0))
		switch {
		case !ok:
			c.note(d, "set_real_ip_from %s: not an address or network; not kept", d.arg(0))
		case !headerForm.MatchString(header), header == "proxy_protocol", strings.EqualFold(header, "Forwarded"):
			c.note(d, "real_ip_header %s: is not a header of one address or X-Forwarded-For; not kept", header)
		case strings.HasSuffix(p, "/0") && !recursive:
			c.note(d, "set_real_ip_from %s: trusts everybody, so that a client could choose its address here; not kept, write the networks of your proxies", d.arg(0))
		case !slices.Contains(own.trusted, p):
			own.trusted, own.header = append(own.trusted, p), textproto.CanonicalMIMEHeaderKey(header)
			if own.header == "X-Forwarded-For" && !recursive {
				c.note(d, "set_real_ip_from %s: real_ip_recursive is off, so that nginx takes the last address of X-Forwarded-For even if it is a proxy's; here it is the last one that is not trusted", d.arg(0))
			}
		}
	}
	slices.Sort(own.trusted)
	if c.client == nil {
		c.client = own
	} else if own.header != c.client.header || !slices.Equal(own.trusted, c.client.trusted) {
		c.note(d, "%v: finds the address of clients otherwise than the limited locations before; here all use the first way", l)
	}
}

func network(s string) (string, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked().String(), true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return "", false
	}
	return a.String(), true
}

func (c *converter) define(d *directive) {
	spec, _ := d.option("zone")
	name, _, _ := strings.Cut(spec, ":")
	z := &zone{name: name, at: d, conn: d.name == "limit_conn_zone"}
	if name == "" || d.arg(0) == "" {
		c.note(d, "%s: without a key or a zone; not kept", d.name)
		return
	}
	if old := c.zones[name]; old != nil {
		c.note(d, "zone %s is on line %d already; not kept", name, old.at.line)
		return
	}
	c.zones[name] = z
	if text, _ := d.option("rate"); !z.conn {
		var ok bool
		if z.rate, ok = parseRate(text); !ok {
			c.note(d, "zone %s: the rate %q is not one of nginx's, such as 10r/s or 30r/m; not kept", name, text)
			z.lost = true
		}
	}
	if !c.key(d, z) {
		z.lost = true
	}
}

// rate is nginx's rate of admission, in thousandths of a request a second, truncated. For 1r/m
// it keeps 16, not 16⅔.
type rate struct {
	milli     int64
	perMinute int64 // requests, in nginx's file; 0 if the rate is per second
}

func perSecond(n int64) rate { return rate{milli: n * 1000} }
func perMinute(n int64) rate { return rate{milli: n * 1000 / 60, perMinute: n} }

// why returns why a limit differs from nginx's file, or "".
func (r rate) why() string {
	if r.perMinute*1000%60 == 0 {
		return ""
	}
	return fmt.Sprintf("%dr/m: nginx counts in thousandths of a request a second, rounded down, which makes it %d.%03dr/s",
		r.perMinute, r.milli/1000, r.milli%1000)
}

func parseRate(text string) (rate, bool) {
	number, per, _ := strings.Cut(text, "r/")
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || n <= 0 || n > 1<<40:
		return rate{}, false
	case per == "s":
		return perSecond(n), true
	case per == "m":
		return perMinute(n), true
	}
	return rate{}, false
}

// key finds the key of a zone.
func (c *converter) key(d *directive, z *zone) bool {
	key := d.arg(0)
	if m := c.tables["map "+bare(key)]; m != nil && key[0] == '$' {
		var ok bool
		if key, ok = c.mapped(z, m); !ok {
			return false
		}
	}
	text, optional := variableForm.ReplaceAllString(key, ""), 0
	for _, match := range variableForm.FindAllStringSubmatch(key, -1) {
		v := match[1] + match[2] // one of them is empty
		part, ok := part(v)
		if strings.Contains(part, ".") {
			optional++
		}
		switch {
		case v == "server_name":
			c.note(d, "zone %s: every server that has a name has a budget of its own in nginx; here the servers share one", z.name)
		case v == "http_host":
			c.note(d, "zone %s: every spelling of a host, and every port, has a budget of its own in nginx; here they share one", z.name)
		case (v == "server_port" || v == "scheme") && len(c.listens) > 1:
			c.note(d, "zone %s: every %s has a budget of its own in nginx; here all share one", z.name, v)
		case strings.HasPrefix(v, "http_"):
			c.note(d, "zone %s: nginx takes a $%s that is sent twice for one value; here such a request gets 400", z.name, v)
		case strings.HasPrefix(v, "arg_"), strings.HasPrefix(v, "cookie_"):
			c.note(d, "zone %s: nginx takes a $%s that is sent twice, under a name in other letters or with escapes as it comes; here such a request gets 400, or shares the budget of the value without escapes", z.name, v)
		}
		switch {
		case !ok:
			c.note(d, "zone %s: no key of a rule is $%s; the zone is not kept", z.name, v)
			return false
		case part != "" && !slices.Contains(z.by, part):
			z.by = append(z.by, part)
		}
	}
	// nginx does not limit a request only if all of its key is empty.
	z.share = text != "" || len(z.by) > optional || optional > 1
	if optional > 1 && len(z.by) == optional && text == "" {
		c.note(d, "zone %s: requests without any part of the key are not limited in nginx; here they share a budget", z.name)
	}
	return true
}

// bare returns the name of a variable written as $name or ${name}.
func bare(variable string) string { return strings.Trim(variable, "${}") }

// part returns the part of a key for a variable, or "" if that is constant within a server.
func part(variable string) (string, bool) {
	switch variable {
	case "binary_remote_addr", "remote_addr":
		return "ip/32/128", true
	case "host", "http_host":
		return "host", true
	case "request_method":
		return "method", true
	case "server_name", "server_port", "hostname", "scheme":
		return "", true
	}
	for prefix, source := range map[string]string{"http_": "header", "arg_": "query", "cookie_": "cookie", "jwt_claim_": "claim"} {
		name, ok := strings.CutPrefix(variable, prefix)
		if !ok || name == "" {
			continue
		}
		if source == "header" {
			name = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		return source + "." + name, true
	}
	return "", false
}

// mapped resolves the usual way to exempt networks: a geo block marks networks, and a map
// turns a mark into an empty key, which nginx does not limit.
func (c *converter) mapped(z *zone, m *directive) (key string, ok bool) {
	fail := func(format string, args ...any) (string, bool) {
		c.note(z.at, "zone %s: %s; the zone is not kept", z.name, fmt.Sprintf(format, args...))
		return "", false
	}
	geo := c.tables["geo "+bare(m.arg(0))]
	if geo == nil || len(geo.args) != 1 {
		return fail("its key is a map of %s, which is no geo block of the client's address", m.arg(0))
	}
	keys := values(m.block)
	for name := range keys {
		if strings.ContainsAny(name[:min(1, len(name))], `~\\`) || name == "hostnames" || name == "volatile" {
			return fail("its map has %s, which is no mark", name)
		}
	}
	of := func(mark string) string {
		if k, ok := keys[mark]; ok {
			return k
		}
		return keys["default"]
	}
	key = of(values(geo.block)["default"])
	others := key != "" // networks without their own mark are limited
	var limited, free []string
	for _, e := range geo.block {
		if e.name == "default" {
			continue
		}
		p, ok := network(e.name)
		if !ok {
			return fail("its geo block has %s, which is no network", e.name)
		}
		switch k := of(e.arg(0)); {
		case k == "":
			free = append(free, p)
		case key != "" && k != key:
			return fail("its map gives some networks the key %s and others %s", key, k)
		default:
			limited, key = append(limited, p), k
		}
	}
	switch {
	case key == "":
		return fail("its map limits no network")
	case others && nested(limited, free), !others && nested(free, limited):
		return fail("its geo block has a network within another network with another value")
	case others:
		z.exempt = free
	default:
		z.only = limited
	}
	return key, true
}

// values returns the first arguments of a block's lines by name.
func values(block []*directive) map[string]string {
	m := map[string]string{}
	for _, d := range block {
		m[d.name] = d.arg(0)
	}
	return m
}

// nested reports whether a network of inner lies within one of outer.
func nested(inner, outer []string) bool {
	prefix := func(s string) netip.Prefix {
		if p, err := netip.ParsePrefix(s); err == nil {
			return p
		}
		a, _ := netip.ParseAddr(s) // network has checked that it is one or the other
		return netip.PrefixFrom(a, a.BitLen())
	}
	return slices.ContainsFunc(inner, func(i string) bool {
		return slices.ContainsFunc(outer, func(o string) bool {
			return prefix(o).Bits() <= prefix(i).Bits() && prefix(o).Contains(prefix(i).Addr())
		})
	})
}
