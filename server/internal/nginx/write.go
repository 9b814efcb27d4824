// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	notInName  = regexp.MustCompile(`[^A-Za-z0-9._-]`)
	plain      = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)
	wordOfYAML = regexp.MustCompile(`(?i)^(null|true|false|yes|no|on|off|y|n)$`)
)

// rule is a rule in sluice's file.
type rule struct {
	name   string
	origin []*directive // the limit_req directives
	budget
	limits               []limit
	hosts, paths, except []string
	hosted, pathed       map[string]bool // the elements of hosts and paths, once any were added
}

// budget holds the properties that rules must share to be merged.
type budget struct {
	zone     *zone
	limit    limit // for limit_req
	inFlight int64
	status   string
	shadow   bool
}

// limit is the text of a limit, and why it differs from nginx's file.
type limit struct{ text, why string }

// zoneName returns the zone of a limit_req or limit_conn.
func (c *converter) zoneName(d *directive) string {
	if d.name == "limit_conn" {
		return d.arg(0)
	}
	name, _ := d.option("zone")
	return name
}

// merge makes rules from areas. Areas of one zone and one limit share a budget in nginx, so
// they are merged as far as one rule can express them.
func (c *converter) merge() {
	perZone := map[*zone][]int{} // the zone's rules
	alike := map[budget][]int{}  // the rules with that budget
	for _, a := range c.areas {
		name := c.zoneName(a.use)
		z := c.zones[name]
		if z == nil || z.conn != (c.kind == "limit_conn") {
			c.note(a.use, "%s: there is no %s_zone of the name %q; not kept", c.kind, c.kind, name)
			continue
		}
		z.used = true
		if z.lost {
			c.note(a.use, "%s: the zone %s is not kept, see line %d", c.kind, name, z.at.line)
			continue
		}
		r := rule{
			origin: []*directive{a.use}, budget: budget{zone: z, shadow: a.dryRun, status: c.status(a)},
			hosts: a.hosts, paths: a.paths, except: a.except,
		}
		if !c.limit(a.use, &r) || slices.ContainsFunc(alike[r.budget], func(i int) bool { return c.rules[i].join(&r) }) {
			continue
		}
		r.name = c.name(name)
		perZone[z] = append(perZone[z], len(c.rules))
		alike[r.budget] = append(alike[r.budget], len(c.rules))
		c.rules = append(c.rules, r)
	}
	for z, rules := range perZone {
		for _, i := range rules {
			for _, d := range c.rules[i].origin {
				if len(rules) > 1 {
					c.note(d, "%s: the zone %s is one budget in nginx; here it is one for each of several rules", c.kind, z.name)
				}
			}
		}
	}
	c.areas = nil
}

// join adds the requests of another rule with the same budget, if one rule can express both.
func (r *rule) join(o *rule) bool {
	switch {
	case slices.Equal(r.paths, o.paths) && slices.Equal(r.except, o.except):
		if len(r.hosts) == 0 || len(o.hosts) == 0 {
			r.hosts = nil
		} else {
			r.hosts = union(r.hosts, o.hosts, &r.hosted)
		}
	case slices.Equal(r.hosts, o.hosts) && len(r.paths) > 0 && len(o.paths) > 0 && len(r.except)+len(o.except) == 0:
		r.paths = union(r.paths, o.paths, &r.pathed)
	default:
		return false
	}
	r.origin = append(r.origin, o.origin...)
	return true
}

// union appends the elements of b that a lacks. listed holds the elements of a; nil means that
// a may be shared, and is copied.
func union(a, b []string, listed *map[string]bool) []string {
	if *listed == nil {
		*listed = make(map[string]bool, len(a)+len(b))
		for _, s := range a {
			(*listed)[s] = true
		}
		a = slices.Clone(a)
	}
	for _, s := range b {
		if !(*listed)[s] {
			(*listed)[s] = true
			a = append(a, s)
		}
	}
	return a
}

// limit reads a limit_req or a limit_conn into a rule. nginx does not count a key's first
// request in the burst, so burst and delay are one higher here.
func (c *converter) limit(d *directive, r *rule) bool {
	if r.zone.conn {
		n, err := strconv.ParseInt(d.arg(1), 10, 32)
		if err != nil || n < 1 || n > 65535 {
			c.note(d, "limit_conn %s: %q is not a number from 1 to 65535; not kept", d.arg(0), d.arg(1))
			return false
		}
		r.inFlight = n
		return true
	}
	number := func(name string) (int64, bool) {
		s, there := d.option(name)
		if !there {
			return 0, true
		}
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 || name == "delay" && n == 0 {
			c.note(d, "limit_req: %s=%s is not a number that nginx accepts; not kept", name, s)
			return 0, false
		}
		return n, true
	}
	burst, ok := number("burst")
	delay, ok2 := number("delay")
	for _, a := range d.args {
		if key, _, _ := strings.Cut(a, "="); key != "zone" && key != "burst" && key != "delay" && a != "nodelay" {
			c.note(d, "limit_req: %s is not known; not kept", a)
		}
	}
	r.limit = limitOf(r.zone.rate, burst, delay, slices.Contains(d.args, "nodelay"))
	r.limits = []limit{r.limit}
	return ok && ok2
}

// limitOf returns the limit of a rate.
func limitOf(r rate, burst, delay int64, nodelay bool) limit {
	quota, window := big.NewRat(r.milli, 1000), "s"
	if !quota.IsInt() {
		window = quota.Denom().String() + window
	}
	text := fmt.Sprintf("%d/%s leaky-bucket", quota.Num(), window)
	if burst == 0 {
		return limit{text, r.why()}
	}
	text += fmt.Sprintf(" burst %d", burst+1)
	switch {
	case nodelay || delay >= burst:
		text += " nodelay"
	case delay > 0:
		text += fmt.Sprintf(" delay-after %d", delay+1)
	}
	return limit{text, r.why()}
}

func (c *converter) status(a area) string {
	n, err := strconv.Atoi(a.settings.status)
	switch {
	case err != nil || n < 400 || n > 599:
		c.note(a.use, "%s_status %s: must be 400 to 599; 503 is written", c.kind, a.settings.status)
		return "503"
	case n == 408 || n == 444 || n == 499:
		c.note(a.use, "%s_status %d: nginx closes the connection without an answer; here the answer is 503", c.kind, n)
		return "503"
	case n >= 494 && n <= 497: // nginx's internal codes, which a client does not see
		return "400"
	}
	return a.settings.status
}

// name makes a unique name of a rule from a zone's name.
func (c *converter) name(zone string) string {
	base := strings.ToLower(notInName.ReplaceAllString(zone, "-"))
	base = base[:min(len(base), 48)]
	name := base
	for c.names[name] {
		c.again[base]++ // does not start at 2 again: a zone may be used thousands of times
		name = fmt.Sprintf("%s-%d", base, c.again[base]+1)
	}
	c.names[name] = true
	return name
}

// write returns rules as a file.
func (c *converter) write(rules []rule) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Converted from %s. Bursts count the first request, which nginx's do not.\n"+
		"# nginx refuses a body above client_max_body_size, 1m if it is not written, before its limits; here max_body does after them.\n", strings.Map(printable, c.files[0].Name))
	if len(c.listens) > 0 {
		b.WriteString("listen:\n")
	}
	for _, l := range c.listens {
		fmt.Fprintf(&b, "  - address: %s\n", quote(l.address))
		if l.cert != "" || l.key != "" {
			fmt.Fprintf(&b, "    tls: {cert: %s, key: %s}\n", quote(l.cert), quote(l.key))
		}
	}
	if len(c.routes) > 0 {
		b.WriteString("upstream:\n")
	}
	for _, r := range c.routes {
		fmt.Fprintf(&b, "  - url: %s\n", quote(r.url))
		if r.host != "" {
			fmt.Fprintf(&b, "    host: %s\n", quote(r.host))
		}
		if r.path != "" {
			fmt.Fprintf(&b, "    path: %s\n", quote(r.path))
		}
		if r.ownHost {
			b.WriteString("    upstream_host: true\n")
		}
		if r.maxBody > 0 {
			fmt.Fprintf(&b, "    max_body: %d\n", r.maxBody)
		}
	}
	if c.client != nil && len(c.client.trusted) > 0 {
		fmt.Fprintf(&b, "client_ip:\n  header: %s\n  trusted: %s\n", quote(c.client.header), list(c.client.trusted))
	}
	b.WriteString("rules:\n")
	for i := range rules {
		if i > 0 {
			b.WriteByte('\n')
		}
		c.writeRule(&b, &rules[i])
	}
	return []byte(b.String())
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' {
		return '?'
	}
	return r
}

// line returns the limit's line in the file, with a comment if needed.
func (l limit) line() string {
	if l.why == "" {
		return l.text + "\n"
	}
	return l.text + "   # " + l.why + "\n"
}

func (c *converter) writeRule(b *strings.Builder, r *rule) {
	lines := make([]string, len(r.origin))
	for i, d := range r.origin {
		lines[i] = strconv.Itoa(d.line)
		if len(c.files) > 1 {
			lines[i] = strings.Map(printable, d.file) + ":" + lines[i]
		}
	}
	fmt.Fprintf(b, "  - name: %s   # line %s\n", quote(r.name), strings.Join(lines, ", "))
	var match []string
	add := func(key string, values []string) {
		if len(values) > 0 {
			match = append(match, "      "+key+": "+list(values)+"\n")
		}
	}
	add("host", r.hosts)
	add("path", r.paths)
	add("except_path", r.except)
	add("network", r.zone.only)
	if len(match) > 0 {
		b.WriteString("    match:\n" + strings.Join(match, ""))
	}
	if len(r.zone.by) > 0 {
		missing := "skip"
		if r.zone.share {
			missing = "share"
		}
		fmt.Fprintf(b, "    by: %s\n    missing: %s\n", list(r.zone.by), missing)
	}
	before := "    limits: "
	if len(r.limits) > 1 {
		b.WriteString("    limits:\n")
		before = "      - "
	}
	for _, l := range r.limits {
		b.WriteString(before + l.line())
	}
	if r.inFlight > 0 {
		fmt.Fprintf(b, "    in_flight: %d\n", r.inFlight)
	}
	if len(r.zone.exempt) > 0 {
		fmt.Fprintf(b, "    exempt: {networks: %s}\n", list(r.zone.exempt))
	}
	if r.shadow {
		b.WriteString("    mode: shadow\n")
	}
	fmt.Fprintf(b, "    status: %s\n", r.status)
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote writes a text so that YAML reads it unchanged.
func quote(s string) string {
	if plain.MatchString(s) && !wordOfYAML.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
