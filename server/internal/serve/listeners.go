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
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// endTimeout is for requests whose contexts have ended.
const endTimeout = time.Second

// listeners are the addresses of clients and operators. They are opened together and closed
// when the requests in progress have ended.
type listeners struct {
	log      *slog.Logger
	headers  sampledlog.Log // refused PROXY headers
	drain    time.Duration
	draining atomic.Bool

	runtime     *runtime
	kinds       []front.Kind
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
// pages.
func newListeners(clients *runtime, admin http.Handler, drain time.Duration) *listeners {
	log := clients.log
	d := &listeners{
		runtime: clients, kinds: clients.kinds(), log: log, headers: sampledlog.Log{Logger: log, Part: "listener"}, drain: drain,
	}
	d.admin = http.Server{
		Handler: admin, ErrorLog: httpserver.ErrorLog(log), ReadHeaderTimeout: httpserver.HeaderTimeout, ReadTimeout: httpserver.HeaderTimeout,
		WriteTimeout: httpserver.StallTimeout, IdleTimeout: httpserver.IdleTimeout, MaxHeaderBytes: httpserver.MaxHeader,
	}
	return d
}

// listen opens listeners for clients, all or none.
func (d *listeners) listen(ctx context.Context, g *snapshot, listeners ...config.Listener) error {
	c, err := d.prepare(ctx, g, listeners)
	if err != nil {
		return err
	}
	c.use()
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
			if err := d.admin.Serve(d.adminSocket); !errors.Is(err, http.ErrServerClosed) {
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
	d.runtime.clients.Lingering.Drain()
	err := each(all, func(o *listener) error { return o.front.Shutdown(drain) })
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests are cut off: they did not end within the drain time")
		err = nil
	}
	d.endAbandoned(drain)
	err = errors.Join(err, each(all, func(o *listener) error { return o.front.Close() }))
	end, cancelEnd := context.WithTimeout(ctx, endTimeout)
	defer cancelEnd()
	left := httpserver.WaitForNone(end, d.runtime.proxy.Abandoned.Waiting)
	for _, o := range all {
		left += o.front.InFlight()
	}
	if left > 0 {
		d.log.Warn("requests do not end", slog.Int("left", left))
	}
	return errors.Join(err, d.admin.Close())
}

// endAbandoned waits for requests whose clients have left until ctx ends, and then ends them.
func (d *listeners) endAbandoned(ctx context.Context) {
	abandoned := d.runtime.proxy.Abandoned
	if left := httpserver.WaitForNone(ctx, abandoned.Waiting); left > 0 {
		d.log.Warn("requests without a client are cut off, and charged in full", slog.Int("left", left))
	}
	abandoned.Cancel()
}

// each calls f for all listeners at once.
func each(all []*listener, f func(*listener) error) error {
	results := make([]error, len(all))
	var wait sync.WaitGroup
	for i, o := range all {
		wait.Go(func() { results[i] = f(o) })
	}
	wait.Wait()
	return errors.Join(results...)
}
