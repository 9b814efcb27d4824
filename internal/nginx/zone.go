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
	line   int
	by     []string // as in sluice's file; none: one budget for all
	share  bool     // a request without a part of the key is limited nevertheless
	exempt []string // networks
	only   []string // networks, if only these are limited
	rate   rate
	used   bool
	lost   bool // its key or its rate cannot be kept
}

var (
	headerForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	variableForm = regexp.MustCompile(`\$(?:\{([^}]*)\}|(\w+))`)
)

// survey finds what may stand anywhere: zones, maps, and what says where the
// client's address comes from.
func (c *converter) survey(tree []*directive) {
	var zones []*directive
	walk(tree, func(d *directive) {
		switch d.name {
		case "limit_req_zone", "limit_conn_zone":
			zones = append(zones, d)
		case "geo", "map":
			if n := len(d.args); n > 0 {
				c.tables[d.name+" "+bare(d.args[n-1])] = d
			}
		case "include":
			if d.arg(0) != "mime.types" && !strings.HasSuffix(d.arg(0), "/mime.types") && !strings.HasSuffix(d.arg(0), "_params") {
				c.note(d.line, "include %s: not read; convert that file, too, if it has limits", d.arg(0))
			}
		case "set_real_ip_from":
			c.trust(d)
		case "real_ip_header":
			if !headerForm.MatchString(d.arg(0)) || d.arg(0) == "proxy_protocol" {
				c.note(d.line, "real_ip_header %s: is not a header; not kept", d.arg(0))
				break
			}
			c.header, c.realIP = textproto.CanonicalMIMEHeaderKey(d.arg(0)), d
		case "limit_conn_log_level", "limit_req_log_level":
			c.note(d.line, "%s: has no counterpart; not kept", d.name)
		case "limit_rate", "limit_rate_after":
			c.note(d.line, "%s: limits the bandwidth of one response; not kept", d.name)
		}
	})
	for _, d := range zones {
		c.zone(d)
	}
	if c.header != "" && len(c.trusted) == 0 {
		c.note(c.realIP.line, "real_ip_header: no set_real_ip_from says whose header is trusted; not kept")
	}
}

func walk(tree []*directive, visit func(*directive)) {
	for _, d := range tree {
		visit(d)
		walk(d.block, visit)
	}
}

func (c *converter) trust(d *directive) {
	if p, ok := network(d.arg(0)); !ok {
		c.note(d.line, "set_real_ip_from %s: not an address or network; not kept", d.arg(0))
	} else if !slices.Contains(c.trusted, p) {
		c.trusted = append(c.trusted, p)
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

func (c *converter) zone(d *directive) {
	spec, _ := d.option("zone")
	name, _, _ := strings.Cut(spec, ":")
	z := &zone{name: name, line: d.line, conn: d.name == "limit_conn_zone"}
	if name == "" || d.arg(0) == "" {
		c.note(d.line, "%s: without a key or a zone; not kept", d.name)
		return
	}
	if old := c.zones[name]; old != nil {
		c.note(d.line, "zone %s is on line %d already; not kept", name, old.line)
		return
	}
	c.zones[name] = z
	if text, _ := d.option("rate"); !z.conn {
		var ok bool
		if z.rate, ok = parseRate(text); !ok {
			c.note(d.line, "zone %s: the rate %q is not one of nginx's, such as 10r/s or 30r/m; not kept", name, text)
			z.lost = true
		}
	}
	if !c.key(d, z) {
		z.lost = true
	}
}

// rate is how fast nginx lets requests through: in thousandths of a request a
// second, truncated. Of 1r/m it keeps 16, not 16⅔.
type rate struct {
	milli     int64
	perMinute int64 // requests, as nginx's file says; 0 where it says them per second
}

func perSecond(n int64) rate { return rate{milli: n * 1000} }
func perMinute(n int64) rate { return rate{milli: n * 1000 / 60, perMinute: n} }

// why says why a limit is not what nginx's file says, "" where it is.
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
		if v == "server_name" {
			c.note(d.line, "zone %s: every server that has a name has a budget of its own in nginx; here the servers share one", z.name)
		}
		switch {
		case !ok:
			c.note(d.line, "zone %s: no key of a rule is $%s; the zone is not kept", z.name, v)
			return false
		case part != "" && !slices.Contains(z.by, part):
			z.by = append(z.by, part)
		}
	}
	// nginx leaves a request out only if all of its key is empty.
	z.share = text != "" || len(z.by) > optional || optional > 1
	if optional > 1 && len(z.by) == optional && text == "" {
		c.note(d.line, "zone %s: requests without any part of the key are not limited in nginx; here they share a budget", z.name)
	}
	return true
}

// bare returns the name of a variable that is written $name or ${name}.
func bare(variable string) string { return strings.Trim(variable, "${}") }

// part returns the part of a key that a variable is, "" if it is always the
// same within a server.
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

// mapped resolves the usual way to exempt networks: a geo block gives networks
// a mark, and a map makes an empty key of it, which nginx does not limit.
func (c *converter) mapped(z *zone, m *directive) (key string, ok bool) {
	fail := func(format string, args ...any) (string, bool) {
		c.note(z.line, "zone %s: %s; the zone is not kept", z.name, fmt.Sprintf(format, args...))
		return "", false
	}
	geo := c.tables["geo "+bare(m.arg(0))]
	if geo == nil || len(geo.args) != 1 {
		return fail("its key is a map of %s, which is no geo block of the client's address", m.arg(0))
	}
	keys := values(m.block)
	of := func(mark string) string {
		if k, ok := keys[mark]; ok {
			return k
		}
		return keys["default"]
	}
	key = of(values(geo.block)["default"])
	others := key != "" // networks without a mark of their own are limited
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
		return fail("its geo block has a network within another one that is treated otherwise")
	case others:
		z.exempt = free
	default:
		z.only = limited
	}
	return key, true
}

// values returns what the lines of a block give names.
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
