// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
)

// forwarding rewrites a client's request for the upstream.
type forwarding struct {
	trusted      *clientip.Admission // of proxies; nil: none
	upstreamHost bool
	target       *url.URL
	oneProtocol  bool // the upstream speaks HTTP/2, which has no switch of protocol
}

// origins are the fields other than X-Forwarded-* in which proxies state a request's origin.
// An application may trust any of them.
var origins = []string{
	"forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for",
	"true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip", "fly-client-ip",
}

func (f *forwarding) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery // ReverseProxy has removed what net/url cannot parse
	p.SetURL(f.target)
	if len(p.Out.Header["Upgrade"]) > 0 {
		keepUpgrade(p.Out.Header, p.In.ContentLength != 0 || f.oneProtocol)
	}
	if !f.upstreamHost {
		p.Out.Host = p.In.Host
	}
	trusted := f.trusted != nil && f.trusted.Admits(clientip.Peer(p.In.RemoteAddr))
	for name := range p.Out.Header {
		// Applications behind CGI or WSGI read X_Real_IP as X-Real-IP.
		if field := normalised(name); field != "" && !(trusted && field == strings.ToLower(name)) {
			delete(p.Out.Header, name)
		}
	}
	if !trusted {
		setForwarded(p.Out.Header, p.In)
		return
	}
	// ReverseProxy has removed these fields. Forwarded stays removed: two accounts of one path
	// could disagree.
	p.Out.Header[xFor] = p.In.Header[xFor]
	p.SetXForwarded()
	for _, name := range []string{xHost, xProto} {
		if values := p.In.Header[name]; len(values) > 0 {
			p.Out.Header[name] = slices.Clone(values)
		}
	}
}

// Fields that state a request's origin.
const (
	xFor   = "X-Forwarded-For"
	xHost  = "X-Forwarded-Host"
	xProto = "X-Forwarded-Proto"
)

// setForwarded is SetXForwarded of [httputil.ProxyRequest] with fewer allocations, for a
// request without these fields: every request has them set.
func setForwarded(h http.Header, in *http.Request) {
	values := &[3]string{1: in.Host, 2: "http"}
	if in.TLS != nil {
		values[2] = "https"
	}
	if ip, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		values[0] = ip
		h[xFor] = values[0:1:1]
	}
	h[xHost], h[xProto] = values[1:2:2], values[2:3:3]
}

// keepUpgrade removes upgrades that a proxy must not pass on: to another HTTP on one
// connection, by which requests would bypass the rules, and to TLS. A request with a body
// switches to nothing: the body might still be read from a connection that another has taken
// over. If none is set, all are removed.
func keepUpgrade(h http.Header, none bool) {
	delete(h, "Http2-Settings")
	var kept []string
	for _, line := range h["Upgrade"] {
		for name := range strings.SplitSeq(line, ",") {
			protocol, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "/")
			if protocol != "" && protocol != "h2c" && protocol != "h2" && protocol != "http" && protocol != "tls" {
				kept = append(kept, strings.TrimSpace(name))
			}
		}
	}
	if kept == nil || none {
		delete(h, "Upgrade")
		delete(h, "Connection")
		return
	}
	h["Upgrade"] = []string{strings.Join(kept, ", ")}
}

// normalised returns how an application may read the name of a field that states a request's
// origin, and "" for other fields.
func normalised(name string) string {
	const prefix = "x-forwarded-"
	if len(name) < len("forwarded") || strings.IndexByte("XxFfTtCc", name[0]) < 0 {
		return "" // most fields: Accept, Host, User-Agent
	}
	field := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if strings.HasPrefix(field, prefix) || slices.Contains(origins, field) {
		return field
	}
	return ""
}
