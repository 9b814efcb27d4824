// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// maxRoutes is the largest number of routes. Further routes count as otherRoute.
const (
	maxRoutes  = 1000
	otherRoute = "other"
)

// The classes of the status that the client got.
const (
	classNone = 0 // no status was sent
	classLeft = 6 // the client left before a status was sent; 1 to 5 are the first digits of a status
	classes   = 7
)

var classNames = [classes]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx", "left"}

// statusLeft is the status in a Summary if the client left.
const statusLeft = 499

func classOf(status int) int {
	if c := status / 100; c >= 1 && c <= 5 {
		return c
	}
	return classNone
}

// httpVecs are the series of finished HTTP requests.
type httpVecs struct {
	took, header           *prometheus.HistogramVec
	sent, answered, failed *prometheus.CounterVec
	pending                pending[ended]
}

func newHTTPVecs() *httpVecs {
	// A p99 between 1 and 50 ms is known to within a half of itself.
	buckets := []float64{.0005, .001, .0015, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .1, .25, .5, 1, 2.5, 10}
	return &httpVecs{
		took: prometheus.NewHistogramVec(histogram("sluice_http_request_duration_seconds",
			"Time from a request's header to the end of its response, by verdict, delays included; without those that switched protocol.", buckets...), []string{"route", "verdict"}),
		header: prometheus.NewHistogramVec(histogram("sluice_upstream_duration_seconds",
			"Time from when a request was passed on to the header of the upstream's response.", buckets...), []string{"route"}),
		sent:     counter("sluice_http_responses_total", "Responses to clients by the class of their status.", "route", "class"),
		answered: counter("sluice_upstream_responses_total", "Responses of upstreams by the class of their status.", "route", "class"),
		failed:   counter("sluice_upstream_errors_total", "Requests without a whole response of the upstream, by the reason.", "route", "reason"),
	}
}

// route holds the series of one route, each made when it is first needed.
type route struct {
	name, label    string
	of             *httpVecs
	took           [numVerdicts]histogramOf
	header         histogramOf
	sent, answered [classes]counterOf
	failed         [numReasons]counterOf
}

// counterOf is a counter whose series is made with its first value.
type counterOf struct {
	made atomic.Pointer[prometheus.Counter]
}

func (c *counterOf) inc(of *prometheus.CounterVec, labels ...string) {
	if made := c.made.Load(); made != nil {
		(*made).Inc()
		return
	}
	made := of.WithLabelValues(labels...)
	c.made.Store(&made)
	made.Inc()
}

// routeOf returns the series of a route.
func (m *Metrics) routeOf(name string) *route {
	if last := m.lastRoute.Load(); last != nil && last.name == name { // the route of most requests, and in the cache
		return last
	}
	if r, ok := m.routes.Load(name); ok {
		m.lastRoute.Store(r.(*route)) //nolint:forcetypeassert // nothing else is ever stored
		return r.(*route)             //nolint:forcetypeassert // likewise
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.numRoutes >= maxRoutes && name != otherRoute {
		name = otherRoute
	}
	if r, ok := m.routes.Load(name); ok {
		return r.(*route) //nolint:forcetypeassert // nothing else is ever stored
	}
	m.numRoutes++
	value := label(name)
	r := &route{name: name, label: value, of: m.http}
	r.header.of = func() prometheus.Observer { return m.http.header.WithLabelValues(value) }
	for i := range r.took {
		r.took[i].of = func() prometheus.Observer {
			return m.http.took.WithLabelValues(value, evaluate.VerdictKind(i).String())
		}
	}
	m.routes.Store(name, r)
	return r
}

// Outcome describes a finished HTTP request.
type Outcome struct {
	// Event is the verdict; nil if nothing was decided.
	Event *evaluate.Event
	// Route is the name of the route by which the request is measured. The program chooses it,
	// not the client, as each name has series of its own.
	Route    string
	Status   int                 // of the response, as in [httplimit.Summary]
	Took     time.Duration       // from the request's header to the end of the response
	Upstream *httplimit.Upstream // nil, or without a URL, if the request was not passed on
	Trace    []string            // the header field Traceparent
	Now      time.Time           // when the request ended
}

// EndHTTP measures a finished HTTP request. It is for OnEnd of [httplimit.Options]. The route is
// the one of the gateway that passed the request on, or the pattern of an [http.ServeMux]. For
// requests to the path of [httplimit.Options.OwnLimits] it counts the response only.
func (m *Metrics) EndHTTP(r *http.Request, s *httplimit.Summary) {
	o := Outcome{
		Event: &s.Event.Event, Route: routeName(r, s), Status: s.Status, Took: s.Took, Upstream: s.Upstream,
		Trace: r.Header["Traceparent"], Now: s.Began.Add(s.Took),
	}
	if s.Own {
		o.Event = nil
	}
	m.End(&o)
}

// End measures a finished HTTP request, for programs that name routes themselves.
func (m *Metrics) End(o *Outcome) {
	e := ended{route: m.routeOf(o.Route), sent: int8(sentClass(o)), verdict: -1}
	if o.Event != nil && o.Status != http.StatusSwitchingProtocols && int(o.Event.Verdict) < numVerdicts {
		e.verdict, e.took = int8(o.Event.Verdict), o.Took
	}
	if u := o.Upstream; u != nil && u.URL != "" {
		e.header, e.hasStatus = max(u.Header, 0), u.Status != 0
		e.answered = int8(classOf(u.Status))
		if u.Err != nil {
			why := reasonOf(u)
			e.route.failed[why].inc(m.http.failed, e.route.label, reasons[why])
		}
	}
	if id := traceID(o.Trace); id != "" {
		e = e.withTrace(id, o.Now)
	}
	m.http.pending.add(e)
}

// ended holds the values of a finished HTTP request that are still to be counted.
type ended struct {
	route                   *route
	took, header            time.Duration // header 0: no header of an upstream
	verdict, sent, answered int8          // verdict -1: took is not counted
	hasStatus               bool          // the upstream answered
}

// count implements [counted].
func (e ended) count() {
	r := e.route
	r.sent[e.sent].inc(r.of.sent, r.label, classNames[e.sent])
	if e.verdict >= 0 {
		r.took[e.verdict].observe(e.took)
	}
	if e.header > 0 {
		r.header.observe(e.header)
	}
	if e.hasStatus {
		r.answered[e.answered].inc(r.of.answered, r.label, classNames[e.answered])
	}
}

// withTrace adds the durations that must be recorded with their trace, and returns the
// remaining values.
func (e ended) withTrace(id string, now time.Time) ended {
	if e.verdict >= 0 && e.route.took[e.verdict].observeTraced(e.took, id, now) {
		e.verdict = -1
	}
	if e.header > 0 && e.route.header.observeTraced(e.header, id, now) {
		e.header = 0
	}
	return e
}

// sentClass returns the class of the status that the client got.
func sentClass(o *Outcome) int {
	if o.Status == statusLeft && (o.Upstream == nil || o.Upstream.Status != statusLeft) {
		return classLeft
	}
	return classOf(o.Status)
}

// routeName returns the name of a request's route.
func routeName(r *http.Request, s *httplimit.Summary) string {
	switch {
	case s.Upstream != nil && s.Upstream.Route != "":
		return s.Upstream.Route
	case s.Upstream != nil && s.Upstream.URL != "":
		return "/" // the upstream of all requests
	default:
		return cmp.Or(r.Pattern, otherRoute)
	}
}

// The reasons why there is no whole response of an upstream.
const (
	otherReason  = iota
	noConnection // no connection could be made, or not in time
	tookTooLong  // to its header, or altogether
	brokenOff    // after its header
	clientLeft   // before its end
	gatewayStops // before its end
	numReasons
)

var reasons = [numReasons]string{"error", "connect", "timeout", "broken", "client", "stop"}

func reasonOf(u *httplimit.Upstream) int {
	var network net.Error
	var dial *net.OpError
	switch {
	case errors.Is(u.Err, context.Canceled):
		return clientLeft
	case errors.Is(u.Err, http.ErrServerClosed):
		return gatewayStops
	case errors.As(u.Err, &dial) && dial.Op == "dial":
		return noConnection
	case errors.Is(u.Err, context.DeadlineExceeded), errors.As(u.Err, &network) && network.Timeout():
		return tookTooLong
	case u.Status != 0:
		return brokenOff
	}
	return otherReason
}

// traceID returns the trace of a request from its traceparent (W3C Trace Context), empty if it
// has none or is not sampled.
func traceID(lines []string) string {
	if len(lines) != 1 {
		return ""
	}
	const length, flags = 55, 53 // 00-TRACE-PARENT-FLAGS
	p := lines[0]
	if len(p) < length || p[2] != '-' || p[35] != '-' || p[52] != '-' || !hex(p[:2]) || p[:2] == "ff" || !hex(p[3:35]) || !hex(p[36:52]) || !hex(p[flags:length]) {
		return ""
	}
	if len(p) > length && (p[:2] == "00" || p[length] != '-') {
		return "" // later versions may have more fields
	}
	id := p[3:35]
	if strings.Trim(id, "0") == "" || strings.Trim(p[36:52], "0") == "" || strings.IndexByte("13579bdf", p[flags+1]) < 0 {
		return ""
	}
	return id
}

func hex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
