// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// The requests of a case are read by the code that the gateway uses for those of clients.

// requestLine reads "POST /path?query" or "/path".
func (d *decoder) requestLine(n *yaml.Node, s string, p *policy.Request) {
	method, target, ok := strings.Cut(s, " ")
	if !ok {
		method, target = http.MethodGet, s
	}
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	u, uerr := url.ParseRequestURI(target)
	if !strings.HasPrefix(path, "/") && path != "*" || strings.ContainsAny(target, " #") || err != nil || uerr != nil {
		d.fault(n, "request is %q; use a method and a path, such as POST /posts?draft=1", shorten(s))
		return
	}
	var sent wire.Attributes
	sent.Reset(&http.Request{Method: method, URL: u}, netip.Addr{}, nil)
	p.Method, p.Path, p.Queries = sent.Method(), sent.Path(), values
}

// hostAsSent returns the host of a Host field as rules name it.
func hostAsSent(field string) string {
	var sent wire.Attributes
	sent.Reset(&http.Request{Host: field}, netip.Addr{}, nil)
	return sent.Host()
}
