// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// Route sends the requests for Host whose path begins with Path to a handler.
type Route struct {
	// Host is compared without case and port; "*.example.com" means all hosts below it. Empty
	// means any.
	Host string
	// Path is a prefix of whole segments: "/api" takes "/api" and "/api/x" but
	// not "/apis". Empty means any.
	Path string
	// MaxBody is the largest body of a request, in bytes. A larger one is answered with 413.
	// Zero means no bound.
	MaxBody int64
	Handler http.Handler

	name string // host and path
}

// Routes is an [http.Handler] that passes each request to the first [Route] that matches. It
// is immutable and safe for concurrent use.
type Routes struct{ routes []Route }

// NewRoutes returns Routes in this order. All faults are returned at once.
func NewRoutes(routes ...Route) (*Routes, error) {
	r := &Routes{}
	var faults []error
	for i, route := range routes {
		if route.Handler == nil {
			faults = append(faults, fmt.Errorf("gateway: route %d: Handler is nil", i+1))
		}
		if route.Path != "" && !strings.HasPrefix(route.Path, "/") {
			faults = append(faults, fmt.Errorf("gateway: route %d: Path %q: write a prefix that begins with a slash, such as /api", i+1, route.Path))
		}
		if route.MaxBody < 0 {
			faults = append(faults, fmt.Errorf("gateway: route %d: MaxBody: %d is negative; leave it 0 for no bound", i+1, route.MaxBody))
		}
		route.Host = wire.Host(route.Host)
		route.Path = strings.TrimSuffix(route.Path, "/")
		route.name = route.Host + route.Path
		r.routes = append(r.routes, route)
	}
	return r, errors.Join(faults...)
}

// ServeHTTP passes the request on, or answers 404 if no route matches. The path is cleaned for
// the comparison, so that dot segments do not lead into another route; the handler gets the
// original path.
func (rs *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if route := rs.find(r); route != nil {
		route.serve(w, r)
		return
	}
	writeProblem(w, http.StatusNotFound, "nothing is served here")
}

// NameOf returns the host and path of the request's route, which is empty for the route of all
// requests. It reports false if no route matches.
func (rs *Routes) NameOf(r *http.Request) (name string, ok bool) {
	if route := rs.find(r); route != nil {
		return route.name, true
	}
	return "", false
}

// find returns the first route that matches, or nil.
func (rs *Routes) find(r *http.Request) *Route {
	host, clean := "", ""
	for i := range rs.routes {
		route := &rs.routes[i]
		if route.Host != "" {
			if host == "" {
				host = wire.Host(r.Host)
			}
			if !route.forHost(host) {
				continue
			}
		}
		if route.Path != "" {
			if clean == "" {
				clean = path.Clean("/" + r.URL.Path)
			}
			if rest, ok := strings.CutPrefix(clean, route.Path); !ok || rest != "" && rest[0] != '/' {
				continue
			}
		}
		return route
	}
	return nil
}

func (route *Route) forHost(host string) bool {
	if below, ok := strings.CutPrefix(route.Host, "*"); ok {
		return len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return host == route.Host
}

func (route *Route) serve(w http.ResponseWriter, r *http.Request) {
	if noted := exchange.Observed(w); noted != nil {
		noted.Route = route.name
	}
	if route.MaxBody > 0 && r.Body != nil && r.Body != http.NoBody {
		if r.ContentLength > route.MaxBody {
			// The body is not read, so no request can follow it.
			w.Header().Set("Connection", "close")
			writeProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request's body is larger than %d bytes", route.MaxBody))
			return
		}
		var x *exchange.Exchange
		x, w = exchange.Begin(w, r)
		r = x.Watch(r)
		x.Body().Limit(route.MaxBody)
	}
	route.Handler.ServeHTTP(w, r)
}
