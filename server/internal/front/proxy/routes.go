// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// routes are the upstreams of one configuration, and the limits around them.
type routes struct {
	config    *config.Config
	named     *gateway.Routes // nil for the sample app
	handler   http.Handler
	upstreams map[upstream]*gateway.Gateway
	limits    map[limited]*httplimit.Middleware
}

// limited tells the limits of listeners apart.
type limited struct {
	policy  *policy.Policy
	clients string // the networks that are admitted
}

// upstream holds the settings of a gateway: while they stay, the gateway and its connections
// are kept.
type upstream struct {
	url     string
	timeout time.Duration
	longest time.Duration
	own     bool // UpstreamHost
	trusted string
}

// routesOf returns the routes of a configuration. It makes the gateways that are not there yet.
func (p *Proxy) routesOf(c *config.Config) (*routes, error) {
	if p.next != nil && p.next.config == c {
		return p.next, nil
	}
	rs := &routes{config: c, limits: make(map[limited]*httplimit.Middleware)}
	if len(c.Upstreams) == 0 {
		rs.handler = newSampleApp()
	} else if err := p.addUpstreams(rs); err != nil {
		return nil, err
	}
	p.next = rs
	return rs, nil
}

func (p *Proxy) addUpstreams(rs *routes) (err error) {
	c := rs.config
	rs.upstreams = make(map[upstream]*gateway.Gateway)
	old := p.current.Load()
	all := make([]gateway.Route, len(c.Upstreams))
	for i, u := range c.Upstreams {
		at := upstream{u.URL.String(), u.Timeout, u.LongestRequest, u.UpstreamHost, fmt.Sprint(c.ClientIP.Forwarding())}
		if rs.upstreams[at] == nil && old != nil {
			rs.upstreams[at] = old.upstreams[at]
		}
		if rs.upstreams[at] == nil {
			rs.upstreams[at], err = gateway.New(at.url, gateway.Options{
				Trusted: c.ClientIP.Forwarding(), ResponseTimeout: u.Timeout, UpstreamHost: u.UpstreamHost, StallTimeout: httpserver.StallTimeout,
				LongestRequest: u.LongestRequest, OnLongest: func() { p.longest.Add(1) },
				Abandoned: p.Abandoned, Dial: p.Upstreams.Dial, Log: p.o.Log,
			})
			if err != nil {
				return err
			}
		}
		all[i] = gateway.Route{Host: u.Host, Path: u.Path, MaxBody: u.MaxBody, Handler: rs.upstreams[at]}
	}
	rs.named, err = gateway.NewRoutes(all...)
	rs.handler = rs.named
	return err
}

// activate makes rs the routes whose gateways later routes share. The previous gateways close
// their idle connections; those in use close when they are done.
func (p *Proxy) activate(rs *routes) {
	old := p.current.Swap(rs)
	if old == rs {
		return
	}
	p.ReadAhead.Resize(cmp.Or(rs.config.MaxReadAhead, bounds.DefaultReadAhead))
	if old == nil {
		return
	}
	for at, up := range old.upstreams {
		if rs.upstreams[at] != up {
			up.Close()
		}
	}
}

// routeOf returns the name of a request's route in metrics.
func (rs *routes) routeOf(r *http.Request, u *httplimit.Upstream) string {
	switch {
	case u.Route != "":
		return u.Route
	case u.URL != "" || rs.named == nil:
		return "/" // the upstream of all requests, or the sample app
	}
	name, ok := rs.named.NameOf(r)
	if !ok {
		return "none"
	}
	return cmp.Or(name, "/")
}
