// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/gateway"
)

// serveRole is this program as a server to compare with, until ctx ends.
//
//	empty         net/http that answers 200 and nothing
//	reverseproxy  httputil.ReverseProxy as it is documented, with as many idle
//	              connections as package gateway keeps
//	unlimited     package gateway without limits, in the server of sluice serve
func serveRole(ctx context.Context, role, listen, upstream string) error {
	srv := &http.Server{
		Addr: listen, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	switch role {
	case "empty":
		srv.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	case "reverseproxy":
		target, err := url.Parse("http://" + upstream)
		if err != nil {
			return err
		}
		transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second, DisableCompression: true}
		srv.Handler = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		}}
	case "unlimited":
		g, err := gateway.New("http://"+upstream, gateway.Options{})
		if err != nil {
			return err
		}
		srv.Handler = gateway.WithDeadlines(g, time.Minute)
	default:
		return fmt.Errorf("-role %q is none of empty, reverseproxy, unlimited", role)
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
