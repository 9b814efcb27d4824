// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// route is an upstream in sluice's file.
type route struct {
	host, path, url string
	ownHost         bool // the upstream's name is sent in Host
	maxBody         int64
}

// String returns the route in the form of a note.
func (r route) String() string {
	if r.maxBody > 0 {
		return fmt.Sprintf("%s with bodies to %d bytes", r.url, r.maxBody)
	}
	return cmp.Or(r.url, "none")
}

// gateway finds the upstreams of all servers, and returns the servers that keep a listener.
// Its other notes are about upstreams.
func (c *converter) gateway(http *block, servers []*server) []*server {
	c.kind = "limit_req"
	c.fates(servers)
	pools := map[string]*directive{}
	for _, d := range all(http.list, "upstream") {
		pools[d.arg(0)] = d
	}
	one := len(servers) == 1
	hosts := func(s *server) []string {
		switch {
		case one:
			return []string{""}
		case s.open:
			return append(slices.Clone(s.names), "")
		}
		return s.names
	}
	for _, s := range servers {
		c.upstreams(s, hosts(s), pools)
	}
	servers = c.silence(servers)
	slices.SortStableFunc(c.routes, func(a, b route) int {
		wild := func(r route) int { return min(1, strings.Count(r.host, "*")+2*(1-min(1, len(r.host)))) }
		return cmp.Or(wild(a)-wild(b), len(b.host)-len(a.host), len(b.path)-len(a.path))
	})
	for _, s := range servers {
		c.elsewhere(s, hosts(s))
	}
	if len(c.routes) == 0 {
		c.note(nil, "no upstream: nothing is passed on by proxy_pass or grpc_pass; write upstream into the file, or sluice serve answers with its sample app")
	}
	return servers
}

// silence leaves out the listeners whose servers pass nothing on, as nginx answers, and the
// servers without another listener.
func (c *converter) silence(servers []*server) []*server {
	heard := map[string]bool{}
	wide := func(address string) string { return address[strings.LastIndex(address, ":"):] }
	for _, s := range servers {
		for _, address := range s.addresses {
			if s.routed || s.rest == nil || !s.rest.answered() {
				heard[address], heard[wide(address)] = true, true
			}
		}
	}
	if len(heard) == 0 {
		return servers
	}
	c.listens = slices.DeleteFunc(c.listens, func(l listen) bool { return !heard[l.address] })
	return slices.DeleteFunc(slices.Clone(servers), func(s *server) bool {
		silent := func(address string) bool {
			return !slices.ContainsFunc(c.listens, func(l listen) bool { return l.address == address || l.address == wide(address) })
		}
		closed := slices.DeleteFunc(slices.Clone(s.addresses), func(address string) bool { return !silent(address) })
		if len(closed) > 0 {
			c.note(s.d, "%v: nginx answers all its requests itself; nothing listens at %s here, so leave that to nginx", s.root, strings.Join(slices.Compact(closed), " "))
		}
		s.addresses = slices.DeleteFunc(s.addresses, silent)
		return len(closed) > 0 && len(s.addresses) == 0
	})
}

// elsewhere notes requests that nginx answers but sluice passes to another server's upstream.
func (c *converter) elsewhere(s *server, hosts []string) {
	if s.rest == nil {
		return
	}
	for _, host := range hosts {
		i := slices.IndexFunc(c.routes, func(r route) bool {
			return (r.path == "" || !s.routed) && (r.host == "" || r.host == host || names(r.host, host) > 0)
		})
		if i >= 0 {
			c.note(s.rest.d, "%v: nginx answers its requests itself; here those for hosts %s go to the upstream %s", s.rest, cmp.Or(host, "that no server names"), c.routes[i].url)
			return
		}
	}
}

// upstreams finds the routes of a server.
func (c *converter) upstreams(s *server, hosts []string, pools map[string]*directive) {
	urls := map[*location]route{}
	locations := append([]*location{s.root}, s.locations...)
	walkLocations(locations, func(l *location) {
		if l == s.root && s.has("/", false) || l.modifier == "@" {
			return
		}
		urls[l] = route{}
		if l.answered() {
			return
		}
		if d := l.passing(); d != nil {
			s.routed = true
			urls[l] = c.url(l, d, pools)
			if l.passes() == nil {
				c.note(l.d, "%v: files are not served here: all requests go to the upstream", l)
			}
		}
		for _, d := range append(append(all(l.list, "rewrite"), all(s.list, "rewrite")...), append(all(l.list, "if"), all(s.list, "if")...)...) {
			switch {
			case d.name == "if":
				if !c.limited(s) && slices.ContainsFunc(d.block, func(d *directive) bool { return !harmless(d.name) }) {
					c.note(d, "if %s: what it does is not kept; the upstream gets all requests", strings.Join(d.args, " "))
				}
			case !redirects(d):
				c.note(d, "rewrite %s: the upstream gets the path as it came", d.arg(0))
			default:
				c.note(d, "rewrite %s: redirects in nginx; here the upstream gets these requests", d.arg(0))
			}
		}
	})
	walkLocations(locations, func(l *location) {
		r, there := urls[l]
		around := urls[s.enclosing(l)]
		top := l.path == "/" && l.prefix()
		switch {
		case !there, r == around && !top:
		case l.pattern() != nil || l.exact(), r.url == "" && around.url != "":
			c.note(l.d, "%v: its upstream is %v here, and %v in nginx", l, around, r)
		case r.url != "":
			if !strings.HasSuffix(l.path, "/") {
				c.note(l.d, "%v: its upstream gets %s and what lies below it here, not %sx", l, l.path, l.path)
			}
			for _, host := range hosts {
				c.route(l, route{host, strings.TrimSuffix(l.path, "/"), r.url, r.ownHost, r.maxBody})
			}
		case top && s.answer != "":
			s.rest = s.root
		case top:
			s.rest = l
		}
	})
}

// answered reports whether nginx answers all requests of a location itself.
func (l *location) answered() bool {
	return l.server.answer != "" || l.fate != nil && l.fate.code != "" || len(all(l.list, "internal")) > 0
}

// passing returns the directive that passes requests of a location on: its own, or that of the
// location for requests without a file.
func (l *location) passing() *directive {
	if d := l.passes(); d != nil || len(all(l.list, "return")) > 0 {
		return d
	}
	for _, d := range append(all(l.list, "try_files"), l.effective("error_page")...) {
		target := d.arg(len(d.args) - 1)
		to := l.server.namedLocation(target)
		if strings.HasPrefix(target, "/") && !strings.Contains(target, "$") {
			to = l.server.at(target, false)
		}
		if to != nil && to.passes() != nil {
			return to.passes()
		}
	}
	return nil
}

// enclosing returns the location whose upstream gets the requests of a location without a
// route.
func (s *server) enclosing(l *location) (found *location) {
	for _, o := range append([]*location{s.root}, s.locations...) {
		walkLocations([]*location{o}, func(o *location) {
			if o != l && o.prefix() && o.pattern() == nil && strings.HasPrefix(l.path+"/", o.path) && (l.pattern() == nil || o.path == "/") &&
				len(o.path) < len(l.path)+1 && (found == nil || len(o.path) >= len(found.path)) && !(o == s.root && s.has("/", false)) {
				found = o
			}
		})
	}
	return found
}

func (c *converter) route(l *location, r route) {
	i := slices.IndexFunc(c.routes, func(o route) bool { return o.host == r.host && o.path == r.path })
	if i < 0 {
		c.routes = append(c.routes, r)
	} else if c.routes[i] != r {
		c.note(l.d, "%v: the upstream of host %s is %v here, not %v", l, cmp.Or(r.host, "any"), c.routes[i], r)
	}
}

// url returns the route for a location's directive.
func (c *converter) url(l *location, d *directive, pools map[string]*directive) route {
	scheme, rest, ok := strings.Cut(d.arg(0), "://")
	if !ok {
		scheme, rest = "", d.arg(0)
	}
	schemes := map[string]string{"proxy_pass http": "http", "proxy_pass https": "https", "grpc_pass grpc": "h2c", "grpc_pass ": "h2c", "grpc_pass grpcs": "https"}
	to := schemes[d.name+" "+scheme]
	name, uri, _ := strings.Cut(rest, "/")
	if pool := pools[name]; pool != nil {
		servers := all(pool.block, "server")
		if len(servers) != 1 {
			c.note(pool, "upstream %s: has %d servers; the first gets all requests here", name, len(servers))
		}
		name = ""
		if len(servers) > 0 {
			name = servers[0].arg(0)
		}
	}
	if to == "" || name == "" || strings.ContainsAny(name, "$") || strings.HasPrefix(name, "unix:") {
		c.note(d, "%v: %s %s: is no upstream of HTTP with a known address; not kept", l, d.name, d.arg(0))
		return route{}
	}
	if strings.Contains(rest, "/") && "/"+uri != l.path {
		c.note(d, "%v: the upstream gets the path unchanged, not with /%s instead of %s", l, uri, l.path)
	}
	if _, _, err := net.SplitHostPort(name); err != nil {
		name = net.JoinHostPort(strings.Trim(name, "[]"), map[bool]string{true: "443", false: "80"}[to == "https"])
	}
	host := slices.ContainsFunc(l.effective("proxy_set_header"), func(d *directive) bool { return strings.EqualFold(d.arg(0), "Host") })
	return route{url: fmt.Sprintf("%s://%s", to, name), ownHost: d.name == "proxy_pass" && !host, maxBody: sizeOf(l.value("client_max_body_size", "0"))}
}

// sizeOf parses a size of nginx. It returns 0 if there is none.
func sizeOf(text string) int64 {
	text = strings.ToLower(text)
	shift := 10 * (1 + strings.Index("kmg", text[max(0, len(text)-1):]))
	n, err := strconv.ParseInt(strings.TrimRight(text, "kmg"), 10, 64)
	if err != nil || n < 0 || n > 1<<50>>shift {
		return 0
	}
	return n << shift
}
