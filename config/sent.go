// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/http"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/policy"
)

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
	p.Method, p.Path, p.Queries = strings.ToUpper(method), u.EscapedPath(), values
	if !strings.HasPrefix(p.Path, "/") { // "*"
		p.Path = "/" + p.Path
	}
}
