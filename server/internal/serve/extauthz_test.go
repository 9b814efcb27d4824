// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// described is a request of a client as Envoy describes it.
func described(method, path, client string, headers, extensions map[string]string) *authpb.CheckRequest {
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: client, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711},
		}}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "api.example.com:443", Scheme: "https", Headers: headers,
		}},
		ContextExtensions: extensions,
	}}
}

// TestExtAuthz: Envoy describes a request, which is decided as the gateway decides it.
func TestExtAuthz(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, `
listen: {address: "127.0.0.1:0", serve: ext_authz}
client_ip: {trusted: 10.0.0.0/8}
fields: both
rules:
  - {name: get, match: {method: GET, path: /api/, host: api.example.com}, by: ip, limits: 2/h sliding-log}
  - {name: key, match: {path: /key}, by: query.key, missing: refuse, limits: 2/h sliding-log}
  - {name: tenant, match: {path: /tenant}, by: header.X-Context-Tenant, limits: 1/h sliding-log}
  - {name: user, match: {path: /user}, by: header.X-User, limits: 1/h sliding-log}
`, servetest.Stopped)
	c := authpb.NewAuthorizationClient(dialRLS(t, s.URLs[0], insecure.NewCredentials()))
	type fields = map[string]string
	raw := described("GET", "/user", "192.0.2.1", nil, nil)
	raw.Attributes.Request.Http.HeaderMap = &corepb.HeaderMap{Headers: []*corepb.HeaderValue{{Key: "x-user", RawValue: []byte("raw")}, {Key: ":path", Value: "/"}}}
	for i, step := range []struct {
		request *authpb.CheckRequest
		status  int32 // 0: it passes
		body    string
	}{
		{described("GET", "/api/items?x=1", "192.0.2.1", nil, nil), 0, ""},
		{described("GET", "/api/items", "192.0.2.1", nil, nil), 0, ""},
		{described("GET", "/api/items", "192.0.2.1", nil, nil), 429, "quota of the limit"},
		{described("POST", "/api/items", "192.0.2.1", nil, nil), 0, ""},
		{described("GET", "/%61pi/./items", "192.0.2.1", nil, nil), 429, ""},
		{described("GET", "/api/items", "192.0.2.1", fields{"x-forwarded-for": "192.0.2.9"}, nil), 429, ""}, // not trusted
		{described("GET", "/api/items", "10.0.0.1", fields{"x-forwarded-for": "192.0.2.9"}, nil), 0, ""},
		{described("GET", "/key", "192.0.2.1", nil, nil), 400, "query key is missing"},
		{described("GET", "/tenant", "192.0.2.1", nil, fields{"Tenant": "a"}), 0, ""},
		{described("GET", "/tenant", "192.0.2.1", nil, fields{"Tenant": "a"}), 429, ""},
		{described("GET", "/tenant", "192.0.2.1", fields{"x-context-tenant": "b"}, fields{"Tenant": "a"}), 429, ""}, // the client's is left out
		{described("GET", "/tenant", "192.0.2.1", fields{"x-context-tenant": "b"}, nil), 400, ""},
		{described("GET", "/user", "192.0.2.1", fields{"x-user": "ada"}, nil), 0, ""},
		{described("GET", "/user", "192.0.2.1", fields{"x-user": "ada"}, nil), 429, ""},
		{raw, 0, ""},
		{raw, 429, ""},
		{described("GET", "/%zz", "192.0.2.1", nil, nil), 400, "target of the original request is not valid"},
		{described("GET", "no path", "192.0.2.1", nil, nil), 400, ""},
		{described("CONNECT", "", "192.0.2.1", nil, nil), 400, ""},
	} {
		got, err := c.Check(t.Context(), step.request)
		if err != nil {
			t.Fatal(err)
		}
		denied := got.GetDeniedResponse()
		if step.status == 0 {
			if got.GetStatus().GetCode() != 0 || got.GetOkResponse() == nil {
				t.Errorf("request %d: %v", i+1, got)
			}
			continue
		}
		if got.GetStatus().GetCode() != int32(codes.PermissionDenied) || int32(denied.GetStatus().GetCode()) != step.status || !strings.Contains(denied.GetBody(), step.body) {
			t.Errorf("request %d: %v, want %d %q", i+1, got, step.status, step.body)
		}
	}
	for i := range 20 { // the name in lower case counts
		names := fields{"Tenant": "same", "tenant": fmt.Sprint("of its own ", i), "TENANT": "same"}
		if got, err := c.Check(t.Context(), described("GET", "/tenant", "192.0.2.1", nil, names)); err != nil || got.GetDeniedResponse() != nil {
			t.Errorf("request %d with names that differ in letter case: %v, %v", i, got, err)
		}
	}
	ok, err := c.Check(t.Context(), described("GET", "/api/", "192.0.2.7", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if names := namesOf(ok.GetOkResponse().GetResponseHeadersToAdd()); !slices.Contains(names, "Ratelimit=\"get\";r=1;t=3600") && !slices.Contains(names, "RateLimit=\"get\";r=1;t=3600") {
		t.Errorf("header fields %q", names)
	}
	if m := ok.GetDynamicMetadata().AsMap(); fmt.Sprint(m) != "map[limit:get remaining:1 rule:get verdict:allowed]" {
		t.Errorf("metadata %v", m)
	}
	_, _ = c.Check(t.Context(), described("GET", "/api/", "192.0.2.7", nil, nil)) // to be over
	over, err := c.Check(t.Context(), described("GET", "/api/", "192.0.2.7", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if names := namesOf(over.GetDeniedResponse().GetHeaders()); !slices.Contains(names, "Retry-After=3600") || !slices.Contains(names, "Content-Type=application/problem+json") {
		t.Errorf("header fields %q", names)
	}
	for _, bad := range []*authpb.CheckRequest{{}, described("", "/", "192.0.2.1", nil, nil)} {
		if _, err := c.Check(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// namesOf returns header fields as NAME=VALUE.
func namesOf(options []*corepb.HeaderValueOption) (list []string) {
	for _, o := range options {
		list = append(list, o.GetHeader().GetKey()+"="+o.GetHeader().GetValue())
	}
	return list
}
