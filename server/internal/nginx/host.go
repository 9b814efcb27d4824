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

// listen is an nginx listener in the form of sluice's file.
type listen struct {
	address   string
	cert, key string
}

// bind reads the listen directives and the names of the servers.
func (c *converter) bind(servers []*server) {
	for _, s := range servers {
		for _, n := range s.named {
			switch {
			case n == "" || n == "_":
			case n[0] == '~', strings.HasSuffix(n, ".*"), strings.Contains(n, "$"):
				if len(servers) > 1 {
					c.note(s.d, "server_name %s: a host is a name, or *. and a name; not kept", n)
				}
			case n[0] == '.':
				s.names = append(s.names, n[1:], "*"+n)
			default:
				s.names = append(s.names, n)
			}
		}
		found := all(s.list, "listen")
		if len(found) == 0 && s.d.name == "server" {
			found = []*directive{{name: "listen", args: []string{"80"}, file: s.d.file, line: s.d.line}}
		}
		for _, d := range found {
			at := address(d.arg(0))
			if at == "" {
				c.note(d, "listen %s: is no address and port of a listener; not kept", d.arg(0))
				continue
			}
			s.addresses = append(s.addresses, at)
			if slices.Contains(d.args, "default_server") || slices.Contains(d.args, "default") {
				s.standard = append(s.standard, at)
			}
			l := listen{address: at}
			if slices.Contains(d.args, "proxy_protocol") {
				c.note(d, "listen %s proxy_protocol: write proxy_protocol with the networks of your proxies at the listener", d.arg(0))
			}
			if slices.Contains(d.args, "ssl") {
				l.cert, l.key = s.value("ssl_certificate", ""), s.value("ssl_certificate_key", "")
			}
			i := slices.IndexFunc(c.listens, func(o listen) bool { return o.address == at })
			if i < 0 {
				c.listens = append(c.listens, l)
			} else if c.listens[i].cert != l.cert {
				c.note(d, "listen %s: has one certificate here, that of the first server", d.arg(0))
			}
		}
	}
	wide := func(l listen) bool {
		_, port, _ := net.SplitHostPort(l.address)
		return l.address != ":"+port && slices.ContainsFunc(c.listens, func(o listen) bool { return o.address == ":"+port })
	}
	c.listens = slices.DeleteFunc(c.listens, wide)
	for _, s := range servers {
		s.open = len(servers) == 1 || slices.ContainsFunc(s.addresses, func(at string) bool { return choose(servers, at, "") == s })
	}
}

// address returns a listener's address, or "" if sluice has none like it.
func address(text string) string {
	if strings.HasPrefix(text, "unix:") || text == "" || strings.Contains(text, "$") {
		return ""
	}
	if strings.Trim(text, "0123456789") == "" {
		return ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), "80"
	}
	if host == "*" || host == "0.0.0.0" || host == "::" {
		host = ""
	}
	return net.JoinHostPort(host, port)
}

// hosts sets the hosts for the rules of each server, and notes where nginx selects another
// server than rules can express.
func (c *converter) hosts(servers []*server) {
	first := c.signature(servers[0])
	alike := !slices.ContainsFunc(servers, func(s *server) bool { return c.signature(s) != first })
	classes := []string{""} // hosts without a server of that name
	for _, s := range servers {
		s.hosts = nil
		if !alike {
			s.hosts = s.names
		}
		for _, h := range s.hosts {
			classes = append(classes, strings.Replace(h, "*", "sluice", 1))
		}
	}
	if alike {
		return
	}
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.addresses...)
	}
	slices.Sort(addresses)
	for _, at := range slices.Compact(addresses) {
		for _, host := range classes {
			c.selected(servers, at, host)
		}
	}
}

// selected notes if nginx selects a server for a host at an address whose rules are not those
// that apply here.
func (c *converter) selected(servers []*server, at, host string) {
	taken := choose(servers, at, host)
	text := cmp.Or(host, "that no server names")
	kept := !c.limited(taken)
	for _, s := range servers {
		if !s.applies(host) {
			continue
		}
		switch {
		case c.signature(s) == c.signature(taken):
			kept = true
		case c.limited(s):
			c.note(taken.d, "%v: requests for hosts %s at %s are limited as those of the %v on line %d here, too", taken.root, text, at, s.root, s.d.line)
		}
	}
	if !kept {
		c.note(taken.d, "%v: requests for hosts %s at %s are not limited here", taken.root, text, at)
	}
}

// applies reports whether the rules of a server apply to a host.
func (s *server) applies(host string) bool {
	return len(s.hosts) == 0 && s.open || slices.ContainsFunc(s.hosts, func(h string) bool { return names(h, host) > 0 })
}

// choose returns the server that nginx selects for a host; "" is a host that no server names.
func choose(servers []*server, at, host string) (taken *server) {
	best := 0
	for _, s := range servers {
		if !slices.Contains(s.addresses, at) {
			continue
		}
		rank := 1
		if slices.Contains(s.standard, at) {
			rank = 2
		}
		for _, n := range s.named {
			rank = max(rank, names(n, host))
		}
		if rank > best {
			taken, best = s, rank
		}
	}
	return taken
}

// names returns how closely a name matches a host; 0 is no match.
func names(name, host string) int {
	below, wild := strings.CutPrefix(name, "*")
	if strings.HasPrefix(name, ".") {
		below, wild = name, true
		name = name[1:]
	}
	switch {
	case host == "":
	case name == host:
		return 1 << 20
	case wild && strings.HasSuffix(host, below) && len(host) > len(below):
		return 2 + len(below)
	}
	return 0
}

// signature identifies the limits of a server's requests.
func (c *converter) signature(s *server) string {
	var b strings.Builder
	for _, o := range s.spots {
		fmt.Fprintf(&b, "%q %v", o.path, o.exact)
		for _, d := range o.uses(c.kind) {
			fmt.Fprintf(&b, " %q %s %v", d.args, o.status, o.dryRun)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
