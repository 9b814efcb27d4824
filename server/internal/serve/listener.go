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
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
	"github.com/sluicegate/sluice/server/internal/gateway/proxyproto"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// listener is one address for clients.
type listener struct {
	net.Listener              // the socket and its wrappers
	socket       net.Listener // has the port
	config       atomic.Pointer[config.Listener]
	kind         *front.Kind
	front        front.Front
	gate         *tcp.Gate         // admits clients; nil if the front does
	pair         *certificate.Pair // nil without TLS
	shut         chan struct{}     // closed when no connection is accepted any more
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

// fixed returns the settings that cannot change while a listener is open.
func fixed(c *config.Listener) string {
	return fmt.Sprint(c.Serve, " ", c.CertFile, " ", c.KeyFile, " ", c.ClientCAFile, " ", c.ClientOptional, " ", c.ProxyProtocol)
}

// newListener opens a listener for clients. If old is at the address, it takes over the port,
// which stays open meanwhile.
func (d *listeners) newListener(ctx context.Context, c *config.Listener, old *listener) (o *listener, err error) {
	o = &listener{shut: make(chan struct{}), kind: d.kindOf(c)}
	o.config.Store(c)
	var secure *tls.Config
	if c.CertFile != "" {
		if o.pair, err = d.loadPair(c, o.kind.ALPN); err != nil {
			return nil, fmt.Errorf("listen %s: tls: %w", c.Address, err)
		}
		secure = o.pair.Config()
	}
	if o.socket, err = listen(ctx, c.Address, old); err != nil {
		return nil, fmt.Errorf("listen: %w; choose another", err)
	}
	o.Listener = o.socket
	if len(c.ProxyProtocol) > 0 {
		if o.Listener, err = proxyproto.Listen(o.socket, d.proxies(ctx, o)); err != nil {
			return nil, errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), o.socket.Close())
		}
	}
	if !o.kind.Gates {
		if err = d.newGate(o); err != nil {
			return nil, errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), o.Listener.Close())
		}
	}
	if o.front, err = o.kind.New(c); err != nil { // the last that may fail, as a front must be closed
		return nil, errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), o.Listener.Close())
	}
	o.Listener = o.front.Listen(o.Listener)
	if secure != nil {
		o.Listener = tls.NewListener(o.Listener, secure)
	}
	o.Listener = &shutting{Listener: o.Listener, shut: o.shut}
	return o, nil
}

// loadPair loads the certificate of a listener.
func (d *listeners) loadPair(c *config.Listener, protocols []string) (*certificate.Pair, error) {
	return certificate.Load(c.CertFile, c.KeyFile, certificate.Options{
		ClientCA: c.ClientCAFile, ClientOptional: c.ClientOptional, Protocols: protocols,
		OnChange: func(err error) {
			if err != nil {
				d.log.Error("the certificate has changed and cannot be used; the previous one stays active", slog.String("file", c.CertFile), slog.Any("error", err))
				return
			}
			d.log.Info("a new certificate is active", slog.String("file", c.CertFile))
		},
	})
}

// proxies returns which proxies may send a PROXY header to a listener.
func (d *listeners) proxies(ctx context.Context, o *listener) proxyproto.Options {
	opts := proxyproto.Options{Trusted: o.config.Load().ProxyProtocol}
	if !o.kind.Gates { // else the front reports it
		opts.OnError = func(err *proxyproto.HeaderError) {
			d.headers.Warn(ctx, "PROXY header refused", err)
		}
	}
	return opts
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

// newGate makes the gate that admits the connections of a listener. The front answers clients
// that allow and deny refuse.
func (d *listeners) newGate(o *listener) error {
	opts, err := d.runtime.tcpOptions(o.config.Load())
	if err != nil {
		return err
	}
	if o.gate, err = tcp.NewGate(o.Listener, opts); err != nil {
		return err
	}
	o.Listener = o.gate
	return nil
}

// nameOf returns a listener's name in metrics.
func nameOf(c *config.Listener) string { return cmp.Or(c.Name, c.Address) }

// prepare returns a function that activates another configuration with the same fixed
// settings.
func (d *listeners) prepareUse(o *listener, g *snapshot, c *config.Listener) (use func(), err error) {
	limits := func() {}
	if o.gate != nil {
		l, err := d.runtime.limitsOf(c)
		if err == nil {
			limits, err = o.gate.Prepare(l)
		}
		if err != nil {
			return nil, fmt.Errorf("listen %s: %w", c.Address, err)
		}
	}
	serve, err := o.front.Prepare(d.runtime.snapshotOf(g, c))
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", c.Address, err)
	}
	return func() {
		limits()
		serve()
		o.config.Store(c)
	}, nil
}

// drain accepts no more connections and waits until the requests in progress or ctx have
// ended, also for connections that have switched protocol, which Shutdown does not wait for.
func (o *listener) drain(ctx context.Context) error {
	err := o.front.Shutdown(ctx)
	if httpserver.WaitForNone(ctx, o.front.InFlight) > 0 {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

// stats returns the traffic of the listener.
func (o *listener) stats() tcp.Stats {
	if o.gate != nil {
		return o.gate.Stats()
	}
	if counted, ok := o.front.(interface{ Stats() tcp.Stats }); ok {
		return counted.Stats()
	}
	return tcp.Stats{}
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
	case c.TCP():
		scheme = "tcp"
	case c.Serve == "resp":
		if scheme = "redis"; c.CertFile != "" {
			scheme = "rediss"
		}
	case c.CertFile != "":
		scheme = "https"
	}
	return scheme + "://" + o.Addr().String()
}

// describe returns the listener's URL, its upstreams, and its rules if they are not all.
func (o *listener) describe(upstreams string) string {
	c := o.config.Load()
	text := o.url()
	switch {
	case c.TCP():
		text += " -> " + c.Upstream
	case c.Serve == "check":
		text += " decides for a proxy"
	case c.Serve == "rls" || c.Serve == "ext_authz":
		text += " decides for Envoy"
	case c.Serve == "api":
		text += " -> decisions as JSON"
	case c.Serve == "resp":
		text += " decides by the Redis protocol"
	default:
		text += " -> " + cmp.Or(upstreams, "the built-in sample app")
	}
	if len(c.Rules) > 0 {
		text += "; rules " + strings.Join(c.Rules, ", ")
	}
	return text
}
