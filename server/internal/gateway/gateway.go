// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway passes HTTP requests on to one upstream: a reverse proxy that
// can stand in front of any service without changing it.
//
// It has no limits of its own: wrap it with package httplimit. Bodies pass both ways
// unbuffered, as do server-sent events and connections that switch protocol, such as
// websockets. Hop-by-hop fields are removed, and a client's own values of the fields that
// state a request's origin are not passed on: see [Options].
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config/upstream"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/internal/wire"
)

// Options are the options of a [Gateway]. The zero value works. No duration may be negative.
type Options struct {
	// Trusted are the networks of proxies whose X-Forwarded-For, -Host and -Proto are passed
	// on, with their address appended. Those of other clients are replaced. None are trusted by
	// default.
	Trusted []netip.Prefix
	// UpstreamHost sends the upstream's own host in the Host field. By default the client's is
	// passed on, so that the application's links lead back here.
	UpstreamHost bool

	// ResponseTimeout bounds the time from the end of a request to the header of its response.
	// Zero means 60 s. A timeout is answered with 504.
	ResponseTimeout time.Duration
	// StallTimeout bounds the time in which the upstream reads nothing of a request that is
	// being sent. Zero means 60 s.
	StallTimeout time.Duration

	// LongestRequest bounds the time from a request's header to the last byte of its response,
	// delays before the Gateway included. Zero is no bound. A longer request is answered with
	// 504, or 503 if it was not sent, and cut off once the response has begun. Responses that
	// switch protocol, of text/event-stream, and of gRPC over HTTP/2 have no bound. It needs
	// [WithLeastRate] around the Gateway.
	LongestRequest time.Duration
	// OnLongest, if not nil, is called for each request that exceeded LongestRequest. It must
	// be safe for concurrent use, and quick.
	OnLongest func()

	// Abandoned bounds the requests whose client has left while a handler around the Gateway,
	// such as package httplimit's, awaits the response: the exchange with the upstream
	// continues until the response is there. Nil means an [Abandoned] of the Gateway's own,
	// for DefaultAbandoned requests.
	Abandoned *Abandoned

	// Dial, if not nil, connects to the upstream: see [Connections.Dial]. Nil means
	// [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Log receives the upstream's failures, at most one a second. Nil means [slog.Default].
	Log *slog.Logger
}

// Gateway is an [http.Handler] that passes requests on to one upstream. It answers a failure
// of the upstream with a problem document (RFC 9457) and 502, or 504 for a timeout; or 503 if
// a connection to the upstream lacked a place in [Connections], a file descriptor or a port.
// It is safe for concurrent use.
type Gateway struct {
	proxy     httputil.ReverseProxy // copied for each proxyCall
	detached  detached
	transport *http.Transport
	log       *sampledlog.Log
	url       string        // of the upstream, as passed to New
	longest   time.Duration // 0: no bound
	onLongest func()
	rpc       bool // the upstream may speak gRPC
}

// New returns a Gateway to an upstream, an absolute URL such as "http://127.0.0.1:3000". A
// path in it precedes the path of each request. A URL of h2c, such as "h2c://127.0.0.1:50051",
// means HTTP/2 without TLS: gRPC passes with streams and trailers, and nothing switches
// protocol. A connection to the upstream is made within 5 s, or the request is answered with 504.
func New(to string, opts Options) (*Gateway, error) {
	target, err := upstream.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("gateway: new: upstream: %w", err)
	}
	opts.ResponseTimeout, opts.StallTimeout = cmp.Or(opts.ResponseTimeout, time.Minute), cmp.Or(opts.StallTimeout, time.Minute)
	opts.Log, opts.Abandoned = cmp.Or(opts.Log, slog.Default()), cmp.Or(opts.Abandoned, NewAbandoned(DefaultAbandoned))
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{}).DialContext
	}
	h2c := target.Scheme == upstream.HTTP2
	if h2c {
		target.Scheme = "http" // the scheme that the transport knows
	}
	g := &Gateway{
		transport: newTransport(opts, h2c), log: &sampledlog.Log{Logger: opts.Log, Part: "gateway"}, url: to,
		longest: opts.LongestRequest, onLongest: opts.OnLongest, rpc: h2c || target.Scheme == "https",
	}
	forward := forwarding{upstreamHost: opts.UpstreamHost, target: target, oneProtocol: h2c}
	if len(opts.Trusted) > 0 {
		forward.trusted = new(clientip.NewAdmission(opts.Trusted, nil))
	}
	pool, errorLog := newBuffers(), slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug)
	g.proxy = httputil.ReverseProxy{
		Rewrite: forward.rewrite, BufferPool: pool, ErrorHandler: g.fail, ErrorLog: errorLog, FlushInterval: flushInterval,
	}
	g.detached = detached{timeout: opts.ResponseTimeout, abandoned: opts.Abandoned, log: g.log}
	return g, nil
}

// ServeHTTP passes the request on and blocks until it is answered or its context ends. If a
// handler around it awaits the response and the request was sent whole, the exchange with the
// upstream then continues without a client: see [Options]. On a connection that switched
// protocol each side may end its own direction: ServeHTTP blocks until both have, one is gone,
// the upstream has been silent for ten minutes after the client's end, or the request's context
// ends.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if up := r.Header["Upgrade"]; len(up) > 0 && strings.ContainsFunc(up[0], func(c rune) bool { return c < ' ' || c > '~' }) {
		writeProblem(w, http.StatusBadRequest, "the field Upgrade does not name a protocol")
		return
	}
	if fault := wire.Fault(r); fault != "" {
		writeProblem(w, http.StatusBadRequest, fault)
		return
	}
	p := g.newProxyCall(w, r)
	p.upstream.begin(p, g.url)
	g.bound(p) //nolint:contextcheck // it may be logged after the request's end
	if p.x.Body() != nil {
		// A response may begin before the request's body has ended. Where that is not
		// supported, it needs no switch.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			g.log.Warn(r.Context(), "cannot stream both ways", err)
		}
	}
	defer p.end() //nolint:contextcheck // it looks at the request's own
	proxy := g.proxy
	proxy.Transport = p
	if p.longest != nil {
		proxy.ModifyResponse = func(resp *http.Response) error {
			p.longest.answered(resp, p.request.ProtoMajor > 1)
			return nil
		}
	}
	proxy.ServeHTTP(p.w, p.request)
	p.whole = true
}

// Close closes the idle connections to the upstream.
func (g *Gateway) Close() { g.transport.CloseIdleConnections() }
