// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"
)

// heapRoom is memory that is never touched, and counts for the collector: that of
// sluice serve.
const heapRoom = 32 << 20 // bytes

// serveRole is this program as a server to compare with, until ctx ends.
//
//	empty         net/http that answers 200 and nothing
//	constant      net/http that answers every request with one and the same denial, as
//	              sluice writes it
//	reverseproxy  httputil.ReverseProxy as it is documented, with as many idle
//	              connections as package gateway keeps
//	reverseproxy.room  that with as much garbage before a collection as sluice serve
//	              lets come together
//	upstream      what an attacked gateway passes requests on to
func serveRole(ctx context.Context, role, listen, upstream string) error {
	if name, ok := strings.CutPrefix(role, "attack:"); ok {
		return serveAttack(ctx, name, listen, upstream, os.Stdout)
	}
	srv := &http.Server{
		Addr: listen, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	var room []byte
	defer func() { runtime.KeepAlive(room) }()
	switch role {
	case "empty":
		srv.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	case "json":
		srv.Handler, room = http.HandlerFunc(readJSON), make([]byte, heapRoom)
	case "constant":
		srv.Handler, room = http.HandlerFunc(deny), make([]byte, heapRoom)
	case "reverseproxy", "reverseproxy.room":
		target, err := url.Parse("http://" + upstream)
		if err != nil {
			return err
		}
		if role == "reverseproxy.room" {
			room = make([]byte, heapRoom)
		}
		transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second, DisableCompression: true}
		srv.Handler = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		}}
	case "upstream":
		srv.Handler = http.HandlerFunc(answerAttacked)
	default:
		return fmt.Errorf("-role %q is none of empty, constant, reverseproxy, reverseproxy.room", role)
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// deny answers as sluice does where a limit of 1/day has denied.
func deny(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Cache-Control"], h["Content-Type"] = []string{"no-store"}, []string{"application/problem+json"}
	h["RateLimit"], h["RateLimit-Policy"] = []string{`"gateway";r=0;t=86400`}, []string{`"gateway";q=1;w=86400`}
	h["Retry-After"] = []string{"86400"}
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,`+
		`"detail":"the quota of the limit \"gateway\" is used up; retry after 86400 s","violated-policies":["gateway"]}`+"\n") // a client may leave
}

// answerAttacked reads the body; then /slow takes 100 ms, whether the client leaves
// or not, and /large is 10 MB.
func answerAttacked(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a client may break off
	switch {
	case strings.HasPrefix(r.URL.Path, "/slow"):
		time.Sleep(100 * time.Millisecond)
		if r.URL.Path == "/slow1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	case strings.HasPrefix(r.URL.Path, "/large"):
		part := make([]byte, 64<<10)
		for range 160 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
}

// busyRole is this program as a neighbour that wants a processor all the time.
const busyRole = "busy"

func beBusy(ctx context.Context) error {
	for ctx.Err() == nil {
	}
	return nil
}
