// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway passes HTTP requests on to one upstream: a reverse proxy that
// can stand in front of any service without changing it.
//
// It limits nothing by itself: wrap it with package httplimit. Bodies pass both ways as they come, unbuffered; so do server-sent
// events and connections that switch protocol, such as websockets. Hop-by-hop
// fields stay on their hop, and what a client wrote into the fields that say
// where a request came from is not passed on: see [Options].
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/internal/upstream"
	"github.com/sluicegate/sluice/internal/wire"
)

// Options say how a [Gateway] treats its upstream. The zero value works.
type Options struct {
	// Trusted are the networks of proxies whose X-Forwarded-For, -Host and
	// -Proto are passed on, with their address appended. Of any other client
	// these are set anew. None are trusted by default.
	Trusted []netip.Prefix
	// UpstreamHost sends the upstream's own host in the Host field. By default
	// the one that the client asked for is passed on, so that the application
	// writes links to where the client is.
	UpstreamHost bool

	// DialTimeout is how long a connection to the upstream may take. Zero
	// means 5 s. What takes longer is answered with 504.
	DialTimeout time.Duration
	// ResponseTimeout is how long the upstream may take from the end of a
	// request to the header of its response. Zero means 60 s. What takes
	// longer is answered with 504.
	ResponseTimeout time.Duration
	// StallTimeout is how long the upstream may refuse to read a request that
	// is being sent. Zero means 60 s.
	StallTimeout time.Duration

	// LongestRequest is how long a request may take, from its header to the last
	// byte of its response, with the time for which it is delayed before. Zero is
	// no bound. What takes longer is answered with 504, or 503 if it was not sent, and
	// broken off once the response has begun. Responses that switch protocol, of
	// text/event-stream, and of gRPC over HTTP/2 may take any time. It needs
	// [WithDeadlines] around the Gateway.
	LongestRequest time.Duration
	// OnLongest, if not nil, is called for each request that took longer. It must be
	// safe for concurrent use, and quick.
	OnLongest func()

	// Abandoned bounds the requests whose client has left while a handler around
	// the Gateway, such as package httplimit's, waits for the response: the exchange
	// with the upstream goes on until that is there. Nil means an [Abandoned] of its
	// own, of DefaultAbandoned requests.
	Abandoned *Abandoned

	// Dial, if not nil, connects to the upstream: see [Connections.Dial]. Nil means
	// [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Log gets, at most once a second, why the upstream did not answer. Nil
	// means [slog.Default].
	Log *slog.Logger
}

// Gateway is an [http.Handler] that passes requests on to one upstream. A
// failure of the upstream is answered with 502, or 504 where it took too long,
// and a problem document (RFC 9457); with 503 if there was nothing left of what a
// connection to it needs: a place in [Connections], a file descriptor or a port. It is safe for concurrent use.
type Gateway struct {
	proxy     httputil.ReverseProxy // each proxyCall has a copy
	detached  detached
	transport *http.Transport
	log       *sampledlog.Log
	url       string        // of the upstream, as it was given
	longest   time.Duration // 0: requests may take any time
	onLongest func()
	rpc       bool // the upstream may speak gRPC
}

// New returns a Gateway to an upstream, an absolute URL such as
// "http://127.0.0.1:3000". A path in it goes before the path of each request. One
// of h2c, as in "h2c://127.0.0.1:50051", is spoken to by HTTP/2 without TLS: so
// gRPC passes, streams with their trailers, and nothing switches protocol.
// All faults are returned at once.
func New(to string, opts Options) (*Gateway, error) {
	target, err := ParseUpstream(to)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("upstream: %w", err))
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"DialTimeout", &opts.DialTimeout, 5 * time.Second},
		{"ResponseTimeout", &opts.ResponseTimeout, time.Minute},
		{"StallTimeout", &opts.StallTimeout, time.Minute},
	} {
		if *d.value < 0 {
			faults = append(faults, fmt.Errorf("option %s: %v is negative; leave it 0 for %v", d.name, *d.value, d.def))
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if opts.LongestRequest < 0 {
		faults = append(faults, fmt.Errorf("option LongestRequest: %v is negative; leave it 0 for no bound", opts.LongestRequest))
	}
	for _, p := range opts.Trusted {
		if !p.IsValid() {
			faults = append(faults, errors.New(`option Trusted: a prefix is not valid; use for example netip.MustParsePrefix("10.0.0.0/8")`))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("gateway: new: %w", err)
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Abandoned == nil {
		opts.Abandoned = NewAbandoned(DefaultAbandoned)
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{}).DialContext
	}
	h2c := target.Scheme == upstream.HTTP2
	if h2c {
		target.Scheme = "http" // as the transport has it
	}
	g := &Gateway{
		transport: newTransport(opts, h2c), log: &sampledlog.Log{Logger: opts.Log, Part: "gateway"}, url: to,
		longest: opts.LongestRequest, onLongest: opts.OnLongest, rpc: h2c || target.Scheme == "https",
	}
	forward := forwarding{trusted: opts.Trusted, upstreamHost: opts.UpstreamHost, target: target, oneProtocol: h2c}
	pool, errorLog := newBuffers(), slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug)
	g.proxy = httputil.ReverseProxy{
		Rewrite: forward.rewrite, BufferPool: pool, ErrorHandler: g.fail, ErrorLog: errorLog, FlushInterval: flushInterval,
	}
	g.detached = detached{timeout: opts.ResponseTimeout, abandoned: opts.Abandoned, log: g.log}
	return g, nil
}

// ParseUpstream reads an upstream's URL as [New] does. The error says what to
// write instead.
func ParseUpstream(s string) (*url.URL, error) { return upstream.Parse(s) }

// ServeHTTP passes the request on and blocks until it is answered, or its context
// ends. Where a handler around it waits for the response, and the request was sent
// whole, the exchange with the upstream then goes on without a client: see
// [Options]. Of a connection
// that switched protocol each side may end what it sends: it blocks until both
// have, one is gone, or the request's context ends.
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
	g.bound(p) //nolint:contextcheck // it may be logged behind the request's end
	if p.x.Body() != nil {
		// A response may begin before the request's body has ended. Where that
		// is not supported there is nothing to switch on.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			g.log.Warn(r.Context(), "cannot stream both ways", err)
		}
	}
	defer p.end() //nolint:contextcheck // it looks at the request's own
	proxy := g.proxy
	proxy.Transport = p
	if p.longest != nil {
		proxy.ModifyResponse = p.answered
	}
	proxy.ServeHTTP(p.w, p.request)
	p.whole = true
}

// Close closes the connections to the upstream that are not in use.
func (g *Gateway) Close() { g.transport.CloseIdleConnections() }
