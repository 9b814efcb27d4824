// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
	"github.com/sluicegate/sluice/server/internal/gateway/proxyproto"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// listener is one address for clients.
type listener struct {
	net.Listener              // the socket and its wrappers
	socket       net.Listener // has the port
	config       atomic.Pointer[config.Listener]
	front        front
	raw          *tcp.Server             // front, for TCP; nil for HTTP
	gate         *tcp.Gate               // admits HTTP clients; nil for TCP
	pair         *certificate.Pair       // nil without TLS
	shut         chan struct{}           // closed when no connection is accepted any more
	inflight     inflight                // requests that came in here
	cancel       context.CancelCauseFunc // of their contexts
}

// front serves clients: an [http.Server] or a [tcp.Server].
type front interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// ended returns err, or nil if it says that the front was shut down.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, tcp.ErrServerClosed) {
		return nil
	}
	return err
}

// shutting is a listener that closes shut when it is closed.
type shutting struct {
	net.Listener
	once sync.Once
	shut chan struct{}
}

// Close closes the listener. After it returns, no Accept returns a connection.
func (l *shutting) Close() error {
	defer l.once.Do(func() { close(l.shut) })
	return l.Listener.Close()
}

// limitsOf returns a listener's limits of connections and bytes for each client.
func (s *runtime) limitsOf(c *config.Listener) (l tcp.Limits, err error) {
	finder, err := clientip.New(clientip.Options{IPv4Bits: c.Limits.By.IPv4Bits, IPv6Bits: c.Limits.By.IPv6Bits})
	if err != nil {
		return l, err
	}
	l.Key, l.Exempt = finder.Group, s.exempt
	l.Open, l.Scope, l.FailClosed = c.Limits.Open, c.OpenScope(), c.Limits.Failure != sluice.FailOpen
	l.Rate, l.Bytes, err = c.Plans()
	return l, err
}

// kind returns the settings that cannot change while a listener is open.
func kind(c *config.Listener) string {
	return fmt.Sprint(c.TCP, " ", c.CertFile, " ", c.KeyFile, " ", c.ClientCAFile, " ", c.ClientOptional, " ", c.ProxyProtocol)
}

// newListener opens a listener for clients. If old is at the address, it takes over the port,
// which stays open meanwhile.
func (d *listeners) newListener(ctx context.Context, c *config.Listener, old *listener) (o *listener, err error) {
	o = &listener{shut: make(chan struct{})}
	o.config.Store(c)
	var secure *tls.Config
	if c.CertFile != "" {
		o.pair, err = certificate.Load(c.CertFile, c.KeyFile, certificate.Options{
			ClientCA: c.ClientCAFile, ClientOptional: c.ClientOptional,
			OnChange: func(err error) {
				if err != nil {
					d.log.Error("the certificate has changed and cannot be used; the previous one stays active", slog.String("file", c.CertFile), slog.Any("error", err))
					return
				}
				d.log.Info("a new certificate is active", slog.String("file", c.CertFile))
			},
		})
		if err != nil {
			return nil, fmt.Errorf("listen %s: tls: %w", c.Address, err)
		}
		secure = o.pair.Config()
	}
	if c.TCP {
		if err = d.newRaw(o); err != nil {
			return nil, fmt.Errorf("listen tcp://%s: %w", c.Address, err)
		}
	}
	if o.socket, err = listen(ctx, c.Address, old); err != nil {
		return nil, fmt.Errorf("listen: %w; choose another", err)
	}
	o.Listener = o.socket
	if len(c.ProxyProtocol) > 0 {
		if o.Listener, err = proxyproto.Listen(o.socket, d.proxies(ctx, c)); err != nil {
			return nil, errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), o.socket.Close())
		}
	}
	if !c.TCP {
		if err = d.newGate(o); err != nil {
			return nil, errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), o.Listener.Close())
		}
		o.Listener = d.runtime.memory.Listen(d.runtime.lingering.Listen(o.Listener))
	}
	if secure != nil {
		o.Listener = tls.NewListener(o.Listener, secure)
	}
	o.Listener = &shutting{Listener: o.Listener, shut: o.shut}
	if !c.TCP {
		d.newFront(o)
	}
	return o, nil
}

// proxies returns which proxies may send a PROXY header to a listener.
func (d *listeners) proxies(ctx context.Context, c *config.Listener) proxyproto.Options {
	o := proxyproto.Options{Trusted: c.ProxyProtocol}
	if !c.TCP { // a TCP server reports it itself
		o.OnError = func(err *proxyproto.HeaderError) {
			d.headers.Warn(ctx, "PROXY header refused", err)
		}
	}
	return o
}

// listen opens an address, or duplicates the socket of old.
func listen(ctx context.Context, address string, old *listener) (net.Listener, error) {
	if old == nil {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", address)
	}
	t, ok := old.socket.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listen tcp %s: cannot be taken over", address)
	}
	f, err := t.File()
	if err != nil {
		return nil, fmt.Errorf("listen tcp %s: %w", address, err)
	}
	l, err := net.FileListener(f)
	return l, errors.Join(err, f.Close())
}

// newRaw makes the server that forwards the connections of a TCP listener.
func (d *listeners) newRaw(o *listener) error {
	opts, err := d.tcpOptions(o)
	if err != nil {
		return err
	}
	opts.Upstream, opts.Admit, opts.Dial = o.config.Load().Upstream, d.runtime.admits, d.runtime.upstreams.Dial
	o.raw, err = tcp.New(opts)
	o.front, o.cancel = o.raw, func(error) {}
	return err
}

// newGate makes the gate that admits the connections of an HTTP listener. The front answers
// clients that allow and deny refuse.
func (d *listeners) newGate(o *listener) error {
	opts, err := d.tcpOptions(o)
	if err != nil {
		return err
	}
	opts.MaxConnections = math.MaxInt32 // places bound them
	if o.gate, err = tcp.NewGate(o.Listener, opts); err != nil {
		return err
	}
	o.Listener = o.gate
	return nil
}

// tcpOptions returns the options that both kinds of listeners share.
func (d *listeners) tcpOptions(o *listener) (tcp.Options, error) {
	of := d.runtime
	l, err := of.limitsOf(o.config.Load())
	return tcp.Options{
		Store: of.store, SlotStore: of.slots, Limits: l, Places: of.places, Log: d.log,
		OnDecision: func(e tcp.Event) { of.metrics.CountTCP(o.name(), e) },
	}, err
}

// name returns the listener's name in metrics.
func (o *listener) name() string {
	c := o.config.Load()
	return cmp.Or(c.Name, c.Address)
}

// adjust activates another configuration of the same kind.
func (d *listeners) adjust(o *listener, c *config.Listener) error {
	l, err := d.runtime.limitsOf(c)
	switch {
	case err != nil:
	case o.raw != nil:
		err = o.raw.Change(c.Upstream, l)
	default:
		err = o.gate.Change(l)
	}
	if err != nil {
		return fmt.Errorf("listen %s: %w", c.Address, err)
	}
	o.config.Store(c)
	return nil
}

// drain accepts no more connections and waits until the requests in progress or ctx have
// ended, also for connections that have switched protocol, which Shutdown does not wait for.
// It then ends the remaining ones.
func (o *listener) drain(ctx context.Context) error {
	err := o.front.Shutdown(ctx)
	if o.inflight.wait(ctx) > 0 {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	o.cancel(http.ErrServerClosed)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	o.inflight.wait(end) // the last answers; Close ends the rest
	return err
}

// abandon closes a listener that has served nobody.
func (o *listener) abandon() error {
	o.cancel(http.ErrServerClosed)
	return o.Close()
}

// at returns the listener at an address, or nil.
func (d *listeners) at(address string) *listener {
	i := slices.IndexFunc(d.open, func(o *listener) bool { return o.config.Load().Address == address })
	if i < 0 {
		return nil
	}
	return d.open[i]
}

// url returns the listener's URL.
func (o *listener) url() string {
	scheme := "http"
	switch c := o.config.Load(); {
	case c.TCP:
		scheme = "tcp"
	case c.CertFile != "":
		scheme = "https"
	}
	return scheme + "://" + o.Addr().String()
}

// describe returns the listener's URL and its upstreams.
func (o *listener) describe(upstreams string) string {
	if c := o.config.Load(); c.TCP {
		upstreams = c.Upstream
	}
	return o.url() + " -> " + cmp.Or(upstreams, "the built-in sample app")
}
