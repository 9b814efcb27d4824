// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/server/internal/overview"
)

// Options are the parts of an admin handler. All but API and Page are required.
type Options struct {
	// Ready reports whether traffic should come here.
	Ready func() bool
	// Store describes the state of the store in a line, and reports whether traffic can be
	// answered with the store in that state.
	Store func() (line string, ok bool)
	// Config names the active configuration in a line and, if a newer one is not active, the
	// reason.
	Config func() string
	// Problems returns the problems of recent requests for /readyz.
	Problems func() []overview.Problem
	// Metrics answers /metrics.
	Metrics http.Handler
	// API, if not nil, answers /policy and all paths below /v1/. It checks the host of
	// its requests itself.
	API http.Handler
	// Page, if not nil, answers / and all paths below /page/. Its files hold no data: the
	// page asks API for them.
	Page http.Handler
	// Hosts are the host names, in lower case, that requests may use beside an IP address
	// and localhost.
	Hosts []string
}

// Handler returns the admin pages. /healthz is 200 as long as the program
// answers at all, /readyz is 503 while it should get no traffic. A request for an unknown
// host is answered 421.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !o.Ready() {
			text(w, http.StatusServiceUnavailable, "draining\n")
			return
		}
		status, detail := http.StatusOK, "ready\n"
		line, ok := o.Store()
		if !ok {
			status, detail = http.StatusServiceUnavailable, "not ready\n"
		}
		text(w, status, detail+line+"\n"+o.Config()+"\n"+overview.ProblemLines(o.Problems()))
	})
	mux.Handle("GET /metrics", o.Metrics)
	if o.Page != nil {
		mux.Handle("GET /{$}", o.Page)
		mux.Handle("GET /page/", o.Page)
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusOK, "sluice admin\n/healthz\n/readyz\n/metrics\n")
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
	// An error means that the client has gone.
	_, _ = io.WriteString(w, s)
}

// ErrNotLoopback is the error of [Resolve] for an address that other machines
// can reach.
var ErrNotLoopback = errors.New("other machines can reach this address")

// Resolve returns the address to listen on for addr, a host and a port. The host may be
// a name if it stands for this machine alone. The error is [ErrNotLoopback] for an address
// that other machines can reach.
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
