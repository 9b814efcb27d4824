// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/admin"
	"github.com/sluicegate/sluice/server/metrics"
)

const (
	headerTimeout = 10 * time.Second // for the header of a request
	idleTimeout   = 2 * time.Minute  // between two requests on a connection
	stallTimeout  = time.Minute      // for a body that does not move
	endTimeout    = time.Second      // for handlers that were told to end
	maxHeader     = 64 << 10         // bytes
)

// server is what serve runs.
type server struct {
	config
	log      *slog.Logger
	store    *memstore.Store
	metrics  *metrics.Metrics
	draining atomic.Bool
	inflight inflight

	front, admin               http.Server
	frontListener, adminSocket net.Listener // the latter nil if there is no admin
	cancel                     context.CancelCauseFunc
}

// serve runs the gateway until ctx ends and all requests have been answered.
func serve(ctx context.Context, c config, stdout io.Writer, log *slog.Logger) error {
	s, err := newServer(ctx, c, log)
	if err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.announce(stdout); err != nil {
		return errors.Join(err, s.front.Close(), s.closeListeners())
	}
	return s.run(ctx)
}

// newServer wires everything and restores the state.
func newServer(ctx context.Context, c config, log *slog.Logger) (*server, error) {
	s := &server{config: c, log: log, metrics: metrics.New()}
	s.store = memstore.New(memstore.Options{Now: c.now})
	s.metrics.WatchMemory(s.store.Stats)
	handler, err := s.handler()
	if err != nil {
		return nil, err
	}
	if c.state != "" {
		found, err := restoreState(s.store, c.state)
		if err != nil {
			return nil, err
		}
		log.Info("state", slog.String("file", c.state), slog.Bool("found", found), slog.Int("states", s.store.Stats().States))
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelError)
	// The requests' contexts do not end with ctx: they may finish first.
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.front = http.Server{
		Handler: s.inflight.wrap(handler), ErrorLog: errorLog,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	s.admin = http.Server{
		Handler:  admin.Handler(admin.Options{Ready: func() bool { return !s.draining.Load() }, Metrics: s.metrics.Handler()}),
		ErrorLog: errorLog, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: stallTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	return s, nil
}

// listen opens both doors, or neither.
func (s *server) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if s.frontListener, err = lc.Listen(ctx, "tcp", s.config.listen); err != nil {
		return fmt.Errorf("--listen: %w; choose another with --listen 127.0.0.1:PORT", err)
	}
	if s.config.admin == "" {
		return nil
	}
	if s.adminSocket, err = lc.Listen(ctx, "tcp", s.config.admin); err != nil {
		err = fmt.Errorf("--admin: %w; choose another with --admin 127.0.0.1:PORT, or --admin off", err)
		return errors.Join(err, s.frontListener.Close())
	}
	return nil
}

func (s *server) closeListeners() error {
	err := s.frontListener.Close()
	if s.adminSocket != nil {
		err = errors.Join(err, s.adminSocket.Close())
	}
	return err
}

// announce prints what is limited, how, and how to try it.
func (s *server) announce(stdout io.Writer) error {
	var b strings.Builder
	to := s.upstream
	if to == "" {
		to = "the built-in sample app"
	}
	front := "http://" + s.frontListener.Addr().String()
	fmt.Fprintf(&b, "sluice: %s -> %s\n", front, to)
	for _, l := range s.limits {
		fmt.Fprintf(&b, "  limit  %v: %s\n", l, algo.Worst(l))
	}
	fmt.Fprintf(&b, "  by     %s\n", strings.Join(s.by, ", "))
	if s.adminSocket != nil {
		fmt.Fprintf(&b, "  admin  http://%s/metrics, /healthz, /readyz\n", s.adminSocket.Addr())
	}
	flags, path, _ := strings.Cut(curlArgs(s.by, s.upstream == ""), "\x00")
	fmt.Fprintf(&b, "  try    curl -i %s'%s%s'\n", flags, front, path)
	if _, err := io.WriteString(stdout, b.String()); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// run serves until ctx ends, then lets what was begun finish, and saves the
// state.
func (s *server) run(ctx context.Context) error {
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	start := func(srv *http.Server, l net.Listener) {
		serving.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	start(&s.front, s.frontListener)
	if s.adminSocket != nil {
		start(&s.admin, s.adminSocket)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	serving.Wait()
	if s.state != "" {
		err = errors.Join(err, saveState(s.store, s.state))
	}
	s.log.Info("stopped")
	return err
}

// stop takes no more connections, lets requests end within the drain time and
// ends the others. Connections that switched protocol have no end to wait for:
// they are closed when all requests are done. It ends within the drain time and
// a little more, or with ctx.
func (s *server) stop(ctx context.Context) error {
	s.draining.Store(true)
	s.log.Info("draining", slog.Duration("timeout", s.drain))
	drain, cancel := context.WithTimeout(ctx, s.drain)
	defer cancel()
	err := s.front.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests are cut off: they did not end within the drain time")
		err = nil
	}
	s.cancel(http.ErrServerClosed)
	end, cancelEnd := context.WithTimeout(ctx, endTimeout)
	defer cancelEnd()
	if left := s.inflight.wait(end); left > 0 {
		s.log.Warn("requests do not end", slog.Int("left", left))
	}
	// The last answers may not have been sent yet.
	if last := s.front.Shutdown(end); !errors.Is(last, context.DeadlineExceeded) {
		err = errors.Join(err, last)
	}
	return errors.Join(err, s.front.Close(), s.admin.Close())
}
