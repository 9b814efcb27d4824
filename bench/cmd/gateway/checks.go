// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
)

// checks measures nginx that asks another server about each request: sluice, and an empty one.
func (m *measurer) checks(ctx context.Context) (err error) {
	h := m.house
	empty, err := h.startRole(ctx, "empty")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.stop()) }()
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	name, err := h.file("check.yaml", fmt.Sprintf("listen: {address: %q, serve: check}\nclient_ip: {trusted: 127.0.0.0/8}\nadmin: \"off\"\nrules:\n  - {name: all, by: ip, limits: %s}\n", address, enough))
	if err != nil {
		return err
	}
	check, err := start(ctx, address, h.sluice, "serve", "--config", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, check.stop()) }()
	return m.saturated(ctx, "Checks", []contender{{"nginx", startNginx}, {"nginx.empty", asking(empty.address)}, {"nginx.check", asking(check.address)}}, 0)
}

// asking returns an nginx that asks a server about each request.
func asking(server string) func(context.Context, *house, string) (*process, error) {
	return func(ctx context.Context, h *house, address string) (*process, error) {
		return nginx(ctx, h, address, 2, fmt.Sprintf(`
	upstream up { server %s; keepalive 1024; keepalive_requests 1000000000; }
	upstream limits { server %s; keepalive 1024; keepalive_requests 1000000000; }
	server {
		listen %s;
		location / {
			auth_request /_limits;
			auth_request_set $ratelimit $upstream_http_ratelimit;
			add_header RateLimit $ratelimit always;
			proxy_pass http://up;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
		location = /_limits {
			internal;
			auth_request off;
			proxy_pass http://limits;
			proxy_pass_request_body off;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-Method $request_method;
			proxy_set_header X-Forwarded-Uri $request_uri;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}`, h.upstream, server, address))
	}
}
