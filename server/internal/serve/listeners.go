// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

const (
	headerTimeout = 10 * time.Second // for the header of a request
	idleTimeout   = 2 * time.Minute  // between two requests on a connection
	stallTimeout  = time.Minute      // for a body without progress
	leastBodyRate = 240              // bytes a second of a body, the default
	endTimeout    = time.Second      // for handlers whose contexts have ended
	maxHeader     = 64 << 10         // bytes
	maxFrame      = 16 << 10         // bytes, of HTTP/2: a connection keeps a buffer for its largest frame
	maxUnread     = 256 << 10        // bytes of bodies on an HTTP/2 connection, less under GOMEMLIMIT; one upload gets as many in each round trip
)

// listeners are the addresses of clients and operators. They are opened together and closed
// when the requests in progress have ended.
type listeners struct {
	log      *slog.Logger
	headers  sampledlog.Log // refused PROXY headers
	drain    time.Duration
	draining atomic.Bool
	cancel   context.CancelCauseFunc // of the requests' contexts

	runtime     *runtime
	newFront    func(*listener)
	admin       http.Server
	adminSocket net.Listener // nil if there is none

	mu      sync.Mutex
	open    []*listener    // in the order of the configuration
	leaving []*listener    // closed, while requests in progress there end
	closing bool           // no listener is opened any more
	failed  chan error     // holds the first failure; nil before serve
	serving sync.WaitGroup // of all listeners
}

// newListeners returns listeners that pass clients to the runtime and operators to their
// pages. The requests' contexts do not end with ctx: requests may finish first.
func newListeners(ctx context.Context, clients *runtime, admin http.Handler, drain time.Duration) *listeners {
	log := clients.log
	d := &listeners{runtime: clients, log: log, headers: sampledlog.Log{Logger: log, Part: "listener"}, drain: drain}
	errorLog := slog.NewLogLogger(newServerLog(log), slog.LevelError)
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.cancel = cancel
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // for clients that expect it, such as gRPC's
	front := gateway.WithLeastRate(clients, stallTimeout, clients.leastBodyRate, func() { clients.slowBodies.Add(1) })
	unread := clients.memory.Unread(maxUnread)
	d.newFront = func(o *listener) {
		var own context.Context
		own, o.cancel = context.WithCancelCause(base)
		o.front = &http.Server{
			Handler: o.inflight.wrap(clients.memory.Wrap(front, clients.noMemory)), ErrorLog: errorLog, Protocols: &protocols,
			ConnContext: clients.lingering.ConnContext,
			ConnState: func(c net.Conn, s http.ConnState) {
				clients.memory.ConnState(c, s)
				clients.lingering.ConnState(c, s)
			},
			HTTP2:             &http.HTTP2Config{MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: unread, MaxReceiveBufferPerStream: unread, WriteByteTimeout: stallTimeout},
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			BaseContext: func(net.Listener) context.Context { return own },
		}
	}
	d.admin = http.Server{
		Handler: admin, ErrorLog: errorLog, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: stallTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	return d
}

// listen opens listeners for clients, all or none.
func (d *listeners) listen(ctx context.Context, listeners ...config.Listener) error {
	c, err := d.prepare(ctx, listeners)
	if err != nil {
		return err
	}
	return c.commit() //nolint:contextcheck // connections end with their listener, not with ctx
}

// listenAdmin opens the listener for operators.
func (d *listeners) listenAdmin(ctx context.Context, address string) (err error) {
	var lc net.ListenConfig
	if d.adminSocket, err = lc.Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// close closes all listeners if serve is not called.
func (d *listeners) close() error {
	var errs []error
	for _, o := range d.open {
		errs = append(errs, o.Close())
	}
	if d.adminSocket != nil {
		errs = append(errs, d.adminSocket.Close())
	}
	return errors.Join(errs...)
}

// serve accepts clients until ctx ends or a listener fails, and then lets requests finish.
func (d *listeners) serve(ctx context.Context) error {
	d.mu.Lock()
	d.failed = make(chan error, 1)
	for _, o := range d.open {
		d.start(o)
	}
	if d.adminSocket != nil {
		d.serving.Go(func() {
			if err := ended(d.admin.Serve(d.adminSocket)); err != nil {
				d.fail(err)
			}
		})
	}
	d.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-d.failed:
	}
	err = errors.Join(err, d.stop(context.WithoutCancel(ctx)))
	d.serving.Wait()
	return err
}

// fail ends the program because a listener failed.
func (d *listeners) fail(err error) {
	select {
	case d.failed <- err:
	default: // it is ending already
	}
}

// stop accepts no more connections, lets requests finish within the drain time and ends the
// others. It does not wait for connections that switched protocol: it closes them when all
// requests are done. It returns soon after the drain time, or when ctx ends.
func (d *listeners) stop(ctx context.Context) error {
	d.draining.Store(true)
	d.mu.Lock()
	d.closing = true
	all := slices.Concat(d.open, d.leaving)
	d.mu.Unlock()
	d.log.Info("draining", slog.Duration("timeout", d.drain))
	drain, cancel := context.WithTimeout(ctx, d.drain)
	defer cancel()
	d.runtime.lingering.Drain()
	err := shutdown(drain, all)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests are cut off: they did not end within the drain time")
		err = nil
	}
	d.endAbandoned(drain)
	d.cancel(http.ErrServerClosed)
	end, cancelEnd := context.WithTimeout(ctx, endTimeout)
	defer cancelEnd()
	left := 0
	for _, o := range all {
		left += o.inflight.wait(end)
	}
	left += waitForNone(end, d.runtime.abandoned.Waiting)
	if left > 0 {
		d.log.Warn("requests do not end", slog.Int("left", left))
	}
	// The last answers may not have been sent yet.
	if last := shutdown(end, all); !errors.Is(last, context.DeadlineExceeded) {
		err = errors.Join(err, last)
	}
	for _, o := range all {
		err = errors.Join(err, o.front.Close())
	}
	return errors.Join(err, d.admin.Close())
}

// endAbandoned waits for requests whose clients have left until ctx ends, and then ends them.
func (d *listeners) endAbandoned(ctx context.Context) {
	abandoned := d.runtime.abandoned
	if left := waitForNone(ctx, abandoned.Waiting); left > 0 {
		d.log.Warn("requests without a client are cut off, and charged in full", slog.Int("left", left))
	}
	abandoned.Cancel()
}

// shutdown shuts all listeners down at once.
func shutdown(ctx context.Context, all []*listener) error {
	results := make([]error, len(all))
	var wait sync.WaitGroup
	for i, o := range all {
		wait.Go(func() { results[i] = o.front.Shutdown(ctx) })
	}
	wait.Wait()
	return errors.Join(results...)
}
