// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
)

// route is an upstream of sluice's file.
type route struct {
	host, path, url string
	ownHost         bool // the upstream's name is sent in Host
}

// gateway finds the upstreams of all servers. All of its notes are about upstreams.
func (c *converter) gateway(http *block, servers []*server) {
	pools := map[string]*directive{}
	for _, d := range all(http.list, "upstream") {
		pools[d.arg(0)] = d
	}
	for _, s := range servers {
		hosts := s.names
		if s.open {
			hosts = append(slices.Clone(hosts), "")
		}
		if len(servers) == 1 {
			hosts = []string{""}
		}
		c.upstreams(s, hosts, pools)
	}
	slices.SortStableFunc(c.routes, func(a, b route) int {
		wild := func(r route) int { return min(1, strings.Count(r.host, "*")+2*(1-min(1, len(r.host)))) }
		return cmp.Or(wild(a)-wild(b), len(b.host)-len(a.host), len(b.path)-len(a.path))
	})
	if len(c.routes) == 0 {
		c.note(nil, "no upstream: nothing is passed on by proxy_pass or grpc_pass; write upstream into the file, or sluice serve answers with its sample app")
	}
}

// upstreams finds the routes of a server.
func (c *converter) upstreams(s *server, hosts []string, pools map[string]*directive) {
	urls := map[*location]*route{}
	walkLocations(append([]*location{s.root}, s.locations...), func(l *location) {
		if l == s.root && s.has("/", false) || l.modifier == "@" {
			return
		}
		r := &route{}
		if d := l.passing(); d != nil {
			r = c.url(l, d, pools)
			if l.passes() == nil {
				c.note(l.d, "%v: files are not served here: all requests go to the upstream", l)
			}
		}
		for _, d := range append(all(l.list, "rewrite"), all(s.list, "rewrite")...) {
			if d.arg(2) != "redirect" && d.arg(2) != "permanent" {
				c.note(d, "rewrite %s: the upstream gets the path as it came", d.arg(0))
			}
		}
		urls[l] = r
		around := &route{}
		if o := s.enclosing(l); o != nil && urls[o] != nil {
			around = urls[o]
		}
		switch {
		case *r == *around && l.path != "/":
		case l.pattern() != nil || l.exact() && l.path != "/", r.url == "" && around.url != "":
			c.note(l.d, "%v: its upstream is %s here, and %s in nginx", l, cmp.Or(around.url, "none"), cmp.Or(r.url, "none"))
		case r.url != "":
			if !strings.HasSuffix(l.path, "/") {
				c.note(l.d, "%v: its upstream gets %s and what lies below it here, not %sx", l, l.path, l.path)
			}
			for _, host := range hosts {
				c.route(l, route{host, strings.TrimSuffix(l.path, "/"), r.url, r.ownHost})
			}
		}
	})
}

// passing returns the directive that passes requests of a location on: its own, or
// that of where it sends what is no file.
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

// enclosing returns the location whose upstream gets the requests of another one that
// has no route.
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
		c.note(l.d, "%v: the upstream of host %s is %s here, not %s", l, cmp.Or(r.host, "any"), c.routes[i].url, r.url)
	}
}

// url returns the upstream of a location's directive.
func (c *converter) url(l *location, d *directive, pools map[string]*directive) *route {
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
		return &route{}
	}
	if strings.Contains(rest, "/") && "/"+uri != l.path {
		c.note(d, "%v: the upstream gets the path as it came, not /%s in the place of %s", l, uri, l.path)
	}
	if _, _, err := net.SplitHostPort(name); err != nil {
		name = net.JoinHostPort(strings.Trim(name, "[]"), map[bool]string{true: "443", false: "80"}[to == "https"])
	}
	host := slices.ContainsFunc(l.effective("proxy_set_header"), func(d *directive) bool { return strings.EqualFold(d.arg(0), "Host") })
	return &route{url: fmt.Sprintf("%s://%s", to, name), ownHost: d.name == "proxy_pass" && !host}
}
