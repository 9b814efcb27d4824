// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
)

// originalOf returns the request that a proxy asks about. It has the proxy's connection, so
// that the client is found as behind any proxy.
func (c *checks) originalOf(r *http.Request) (*http.Request, *fault) {
	method, target, host := r.Method, r.RequestURI, r.Host
	if c.original != "request" {
		if peer := clientip.Peer(r.RemoteAddr); !c.proxies.Trusts(peer) {
			return nil, &fault{http.StatusForbidden, "the peer " + peer.String() + " is not a trusted proxy; add it to trusted under client_ip"}
		}
		fields := forwarded
		if c.original == "x-original" {
			fields = originals
		}
		var f *fault
		if method, target, host, f = fields.read(r); f != nil {
			return nil, f
		}
	}
	u, host, f := targetOf(target, host)
	if f != nil {
		return nil, f
	}
	o := *r
	o.Method, o.URL, o.Host, o.RequestURI = method, u, host, target
	o.Proto, o.ProtoMajor, o.ProtoMinor = "HTTP/1.1", 1, 1 // an answer in gRPC would be a success
	o.Body, o.ContentLength = http.NoBody, 0
	o.TLS = nil // its certificate is the proxy's
	return &o, nil
}

// targetOf returns the URL and the host of the original request.
func targetOf(target, host string) (*url.URL, string, *fault) {
	u, err := url.ParseRequestURI(target)
	if err != nil && target != "*" {
		return nil, "", &fault{http.StatusBadRequest, "the target of the original request is not valid"}
	}
	if u == nil {
		u = &url.URL{Path: target}
	}
	if u.Host != "" {
		host, u.Host, u.Scheme = u.Host, "", ""
	}
	return u, host, nil
}

// fields are the header fields that hold the original request. The first of the targets that
// is there holds it, and no other field is read.
type fields struct {
	method, host string
	targets      []string
}

var (
	forwarded = fields{"X-Forwarded-Method", "X-Forwarded-Host", []string{"X-Forwarded-Uri"}}
	originals = fields{"X-Original-Method", "X-Original-Host", []string{"X-Original-Uri", "X-Original-Url"}}
)

// read returns the parts of the original request. Without a host it has the sub-request's.
func (f *fields) read(r *http.Request) (method, target, host string, problem *fault) {
	one := func(name string) string {
		if values := r.Header[name]; len(values) == 1 {
			return values[0]
		} else if len(values) > 1 {
			problem = &fault{http.StatusBadRequest, "the field " + name + " is sent more than once; let the proxy set it"}
		}
		return ""
	}
	method, host = one(f.method), one(f.host)
	for i := 0; target == "" && i < len(f.targets); i++ {
		target = one(f.targets[i])
	}
	if host == "" {
		host = r.Host
	}
	if problem == nil && (method == "" || target == "") {
		problem = &fault{http.StatusBadRequest, "the field " + f.method + " or " + strings.Join(f.targets, " and ") + " is missing; let the proxy set both"}
	}
	return method, target, host, problem
}

// fault is why a request cannot be checked.
type fault struct {
	status int
	text   string
}

func (f *fault) Error() string { return f.text }

// write answers with a problem document.
func (f *fault) write(w http.ResponseWriter) {
	w.Header()["Content-Type"] = []string{"application/problem+json"}
	w.WriteHeader(f.status)
	body := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(f.status), f.status, f.text}
	_ = json.NewEncoder(w).Encode(body) // an error means that the proxy has left
}
