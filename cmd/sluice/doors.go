// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/gateway/certificate"
	"github.com/sluicegate/sluice/gateway/proxyproto"
	"github.com/sluicegate/sluice/gateway/tcp"
)

// doors are where clients and operators come in. They are opened together, and
// closed when what was begun has ended.
type doors struct {
	log      *slog.Logger
	drain    time.Duration
	draining atomic.Bool
	inflight inflight
	cancel   context.CancelCauseFunc // of the requests' contexts

	front, admin http.Server
	open         []*door
	adminSocket  net.Listener // nil if there is none
}

// door is one address at which clients come in.
type door struct {
	net.Listener
	config file.Listener
	tls    *tls.Config
	raw    *tcp.Server // for TCP; nil for HTTP
}

// newDoors returns doors that lead to a handler, and to another for operators.
// The requests' contexts do not end with ctx: they may finish first.
func newDoors(ctx context.Context, handler, admin http.Handler, drain time.Duration, log *slog.Logger) *doors {
	d := &doors{log: log, drain: drain}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelError)
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.cancel = cancel
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // for clients that know, such as gRPC's
	d.front = http.Server{
		Handler: d.inflight.wrap(gateway.WithDeadlines(handler, stallTimeout)), ErrorLog: errorLog, Protocols: &protocols,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	d.admin = http.Server{
		Handler: admin, ErrorLog: errorLog, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: stallTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	return d
}

// listen opens a door for clients.
func (d *doors) listen(ctx context.Context, c file.Listener, admits func(netip.Addr) bool) error {
	o := &door{config: c}
	if c.CertFile != "" {
		pair, err := certificate.Load(c.CertFile, c.KeyFile, certificate.Options{OnChange: func(err error) {
			if err != nil {
				d.log.Error("the certificate has changed and cannot be used; the one before is kept", slog.String("file", c.CertFile), slog.Any("error", err))
				return
			}
			d.log.Info("a new certificate serves", slog.String("file", c.CertFile))
		}})
		if err != nil {
			return fmt.Errorf("listen %s: tls: %w", c.Address, err)
		}
		o.tls = pair.Config()
	}
	if c.TCP {
		var err error
		if o.raw, err = tcp.New(tcp.Options{Upstream: c.Upstream, Admit: admits, Log: d.log}); err != nil {
			return fmt.Errorf("listen tcp://%s: %w", c.Address, err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another", err)
	}
	o.Listener = l
	if len(c.ProxyProtocol) > 0 {
		if o.Listener, err = proxyproto.Listen(l, proxyproto.Options{Trusted: c.ProxyProtocol}); err != nil {
			return errors.Join(fmt.Errorf("listen %s: %w", c.Address, err), l.Close())
		}
	}
	if o.raw != nil && o.tls != nil {
		o.Listener = tls.NewListener(o.Listener, o.tls)
	}
	d.open = append(d.open, o)
	return nil
}

// listenAdmin opens the door for operators.
func (d *doors) listenAdmin(ctx context.Context, address string) (err error) {
	var lc net.ListenConfig
	if d.adminSocket, err = lc.Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// close closes what was opened, where it is not to be served after all.
func (d *doors) close() error {
	var errs []error
	for _, o := range d.open {
		errs = append(errs, o.Close())
	}
	if d.adminSocket != nil {
		errs = append(errs, d.adminSocket.Close())
	}
	return errors.Join(errs...)
}

// serve lets clients in until ctx ends, or a door breaks, and then lets what was
// begun finish.
func (d *doors) serve(ctx context.Context) error {
	failed := make(chan error, len(d.open)+1)
	var serving sync.WaitGroup
	start := func(serve func() error, closed error) {
		serving.Go(func() {
			if err := serve(); !errors.Is(err, closed) {
				failed <- err
			}
		})
	}
	for _, o := range d.open {
		switch {
		case o.raw != nil:
			start(func() error { return o.raw.Serve(o.Listener) }, tcp.ErrServerClosed) //nolint:contextcheck // connections end with Shutdown, not with ctx
		case o.tls != nil:
			start(func() error { return d.front.Serve(tls.NewListener(o.Listener, o.tls)) }, http.ErrServerClosed)
		default:
			start(func() error { return d.front.Serve(o.Listener) }, http.ErrServerClosed)
		}
	}
	if d.adminSocket != nil {
		start(func() error { return d.admin.Serve(d.adminSocket) }, http.ErrServerClosed)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	err = errors.Join(err, d.stop(context.WithoutCancel(ctx)))
	serving.Wait()
	return err
}

// stop takes no more connections, lets requests end within the drain time and
// ends the others. Connections that switched protocol have no end to wait for:
// they are closed when all requests are done. It ends within the drain time and
// a little more, or with ctx.
func (d *doors) stop(ctx context.Context) error {
	d.draining.Store(true)
	d.log.Info("draining", slog.Duration("timeout", d.drain))
	drain, cancel := context.WithTimeout(ctx, d.drain)
	defer cancel()
	err := d.shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests are cut off: they did not end within the drain time")
		err = nil
	}
	d.cancel(http.ErrServerClosed)
	end, cancelEnd := context.WithTimeout(ctx, endTimeout)
	defer cancelEnd()
	if left := d.inflight.wait(end); left > 0 {
		d.log.Warn("requests do not end", slog.Int("left", left))
	}
	// The last answers may not have been sent yet.
	if last := d.front.Shutdown(end); !errors.Is(last, context.DeadlineExceeded) {
		err = errors.Join(err, last)
	}
	return errors.Join(err, d.front.Close(), d.admin.Close())
}

// shutdown waits for all doors at once.
func (d *doors) shutdown(ctx context.Context) error {
	results := make([]error, len(d.open)+1)
	var wait sync.WaitGroup
	for i, o := range d.open {
		if o.raw != nil {
			wait.Go(func() { results[i] = o.raw.Shutdown(ctx) })
		}
	}
	results[len(d.open)] = d.front.Shutdown(ctx)
	wait.Wait()
	return errors.Join(results...)
}
