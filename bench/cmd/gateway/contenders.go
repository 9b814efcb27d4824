// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// contender is a server that is measured.
type contender struct {
	name  string
	start func(ctx context.Context, h *house, address string) (*process, error)
}

// house is where the servers run: what they have in common.
type house struct {
	dir      string // for their files
	self     string // this program
	sluice   string
	before   string // another sluice; empty if there is none
	traefik  string // empty if there is none
	upstream string // the address of the server behind the proxies
}

// enough is a limit that is active and allows all that one machine can ask.
const enough = "1000000/s"

// proxies are all that pass requests on to the upstream.
func proxies(h *house) []contender {
	all := []contender{
		{"nginx", startNginx},
		{"reverseproxy", role("reverseproxy")},
		{"reverseproxy.room", role("reverseproxy.room")},
		{"unlimited", sluiceConfig("match: {path: /never}, limits: 1/day")}, // no request matches
		{"sluice", sluiceFlags("--limit", enough)},
		{"sluice.config", sluiceConfig("limits: " + enough)},
	}
	all = append(all, h.beside("limits: "+enough, "--limit", enough)...)
	if _, err := exec.LookPath("caddy"); err == nil {
		all = append(all, contender{"caddy", startCaddy})
	}
	if h.traefik != "" {
		all = append(all, contender{"traefik", startTraefik})
	}
	return all
}

// denied are servers that answer by themselves.
func denied(h *house) []contender {
	return append([]contender{
		{"empty", role("empty")},
		{"constant", role("constant")},
		{"sluice", sluiceFlags("--limit", "1/day")},
		{"sluice.config", sluiceConfig("limits: 1/day")},
	}, h.beside("limits: 1/day", "--limit", "1/day")...)
}

// beside are the other sluice, by a file and by flags, if there is one.
func (h *house) beside(rule string, flags ...string) []contender {
	if h.before == "" {
		return nil
	}
	by := func(how func(context.Context, *house, string) (*process, error)) func(context.Context, *house, string) (*process, error) {
		return func(ctx context.Context, h *house, address string) (*process, error) {
			other := *h
			other.sluice = h.before
			return how(ctx, &other, address)
		}
	}
	return []contender{{"before", by(sluiceFlags(flags...))}, {"before.config", by(sluiceConfig(rule))}}
}

// logging are sluices that differ by what they log of requests that all pass.
func logging(h *house) []contender {
	const rule = "limits: " + enough
	return append([]contender{
		{"off", sluiceConfig(rule)},
		{"denied", sluiceLogging(rule, "decision_log: {file: %s.decisions, requests: denied}\n")},
		{"all", sluiceLogging(rule, "decision_log: {file: %s.decisions}\n")},
		{"plain", sluiceLogging(rule, "decision_log: {file: %s.decisions, keys: plain}\n")},
		{"both", sluiceLogging(rule, "decision_log: {file: %s.decisions}\naccess_log: %s.access\n")},
	}, h.beside(rule, "--limit", enough)...)
}

func role(name string) func(context.Context, *house, string) (*process, error) {
	return func(ctx context.Context, h *house, address string) (*process, error) {
		return start(ctx, address, h.self, "-role", name, "-listen", address, "-upstream", h.upstream)
	}
}

// startRole starts this program as another server.
func (h *house) startRole(ctx context.Context, name string) (*process, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return role(name)(ctx, h, address)
}

func sluiceFlags(flags ...string) func(context.Context, *house, string) (*process, error) {
	return func(ctx context.Context, h *house, address string) (*process, error) {
		args := []string{"serve", "--upstream", "http://" + h.upstream, "--listen", address, "--admin", "off", "--by", "ip"}
		return start(ctx, address, h.sluice, append(args, flags...)...)
	}
}

// sluiceConfig is sluice with a file of one rule.
func sluiceConfig(rule string) func(context.Context, *house, string) (*process, error) {
	return sluiceLogging(rule, "")
}

// sluiceLogging is sluiceConfig with logs, in whose text %s stands for a path that no
// other has.
func sluiceLogging(rule, logs string) func(context.Context, *house, string) (*process, error) {
	return func(ctx context.Context, h *house, address string) (*process, error) {
		logs := strings.ReplaceAll(logs, "%s", filepath.Join(h.dir, address))
		text := fmt.Sprintf("listen: %s\nadmin: \"off\"\nupstream: http://%s\n%srules:\n  - {name: all, by: ip, %s}\n",
			address, h.upstream, logs, rule)
		name, err := h.file(address+".yaml", text)
		if err != nil {
			return nil, err
		}
		return start(ctx, address, h.sluice, "serve", "--config", name)
	}
}

// startUpstream runs the server behind the proxies: nginx with an answer of two
// bytes, by one process, whose share of the machine is the least.
func startUpstream(ctx context.Context, h *house) (p *process, err error) {
	if h.upstream, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	return nginx(ctx, h, h.upstream, 1, fmt.Sprintf(`server { listen %s; location / { return 200 "ok"; } }`, h.upstream))
}

func startNginx(ctx context.Context, h *house, address string) (*process, error) {
	return nginx(ctx, h, address, 2, fmt.Sprintf(`
	upstream up { server %s; keepalive 1024; keepalive_requests 1000000000; }
	server {
		listen %s;
		location / {
			proxy_pass http://up;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}`, h.upstream, address))
}

func nginx(ctx context.Context, h *house, address string, workers int, server string) (*process, error) {
	name, err := h.file(address+".nginx", fmt.Sprintf(`
daemon off;
worker_processes %d;
pid %s;
error_log stderr;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	%s
}
`, workers, filepath.Join(h.dir, address+".pid"), server))
	if err != nil {
		return nil, err
	}
	return start(ctx, address, "nginx", "-p", h.dir, "-c", name, "-e", "stderr")
}

func startCaddy(ctx context.Context, h *house, address string) (*process, error) {
	name, err := h.file(address+".caddy", fmt.Sprintf(`{
	admin off
	auto_https off
}
http://%s {
	reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 1024
		}
	}
}
`, address, h.upstream))
	if err != nil {
		return nil, err
	}
	return start(ctx, address, "env", "HOME="+h.dir, "XDG_DATA_HOME="+h.dir, "caddy", "run", "--adapter", "caddyfile", "--config", name)
}

func startTraefik(ctx context.Context, h *house, address string) (*process, error) {
	name, err := h.file(address+".traefik.yaml", fmt.Sprintf(`http:
  routers:
    all: {rule: "PathPrefix(`+"`/`"+`)", service: up, entryPoints: [web]}
  services:
    up: {loadBalancer: {servers: [{url: "http://%s"}]}}
`, h.upstream))
	if err != nil {
		return nil, err
	}
	return start(ctx, address, h.traefik, "--entryPoints.web.address="+address, "--providers.file.filename="+name, "--log.level=ERROR",
		"--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--serversTransport.maxIdleConnsPerHost=1024")
}

func (h *house) file(name, text string) (string, error) {
	name = filepath.Join(h.dir, name)
	return name, os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // nginx reads it as another user
}
