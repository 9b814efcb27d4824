// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package admin is for operators: health, readiness
// and metrics, on a listener of its own that only this machine can reach.
package admin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Options say what an admin handler shows. The zero value shows health only.
type Options struct {
	// Ready says whether traffic should come here. Nil means always.
	Ready func() bool
	// Store, if not nil, says in a line how the store is, and whether traffic
	// can be answered with it as it is.
	Store func() (line string, ok bool)
	// Config, if not nil, says in a line which configuration is active and, if
	// a newer one is not, why.
	Config func() string
	// Problems, if not nil, returns what /readyz says of the requests of late.
	Problems func() []Problem
	// Metrics, if not nil, answers /metrics.
	Metrics http.Handler
	// API, if not nil, answers /policy and what lies below /v1/. It looks at
	// the host of its requests itself.
	API http.Handler
	// Page, if not nil, answers / and what lies below /page/, with what holds no
	// data: it asks API for that.
	Page http.Handler
	// Hosts are names, in lower case, by which the pages may be asked for beside
	// an IP address and localhost.
	Hosts []string
}

// Handler returns the admin pages: /healthz is 200 as long as the program
// answers at all, /readyz is 503 while it should get no traffic. What is asked for
// by a name that is not known is answered 421.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if o.Ready != nil && !o.Ready() {
			text(w, http.StatusServiceUnavailable, "draining\n")
			return
		}
		status, detail := http.StatusOK, "ready\n"
		if o.Store != nil {
			line, ok := o.Store()
			if !ok {
				status, detail = http.StatusServiceUnavailable, "not ready\n"
			}
			detail += line + "\n"
		}
		if o.Config != nil {
			detail += o.Config() + "\n"
		}
		if o.Problems != nil {
			detail += problemLines(o.Problems())
		}
		text(w, status, detail)
	})
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	pages := "sluice admin\n/healthz\n/readyz\n/metrics\n"
	if o.API != nil {
		pages += "/policy\n/v1/top\n/v1/overview\n/v1/live\n"
	}
	if o.Page != nil {
		mux.Handle("GET /{$}", o.Page)
		mux.Handle("GET /page/", o.Page)
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusOK, pages)
		})
	}
	all := answering(o.Hosts, mux)
	if o.API == nil {
		return all
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/policy" || strings.HasPrefix(r.URL.Path, "/v1/") {
			o.API.ServeHTTP(w, r)
			return
		}
		all.ServeHTTP(w, r)
	})
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// An error means that the client is gone.
	_, _ = io.WriteString(w, s)
}

// ErrNotLoopback is what [Resolve] returns for an address that other machines
// can reach.
var ErrNotLoopback = errors.New("other machines can reach this address")

// Resolve returns where to listen for addr, a host and a port. The host may be
// a name if it stands for this machine alone. An address that others can reach
// is an [ErrNotLoopback].
func Resolve(addr string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%q is not an address; use for example 127.0.0.1:9090", addr)
	}
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address of this machine; use for example 127.0.0.1:9090", addr)
	}
	if !at.IP.IsLoopback() {
		return at, ErrNotLoopback
	}
	return at, nil
}
