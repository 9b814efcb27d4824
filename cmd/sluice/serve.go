// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicegate/sluice/algo"
	file "github.com/sluicegate/sluice/config"
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
	log     *slog.Logger
	store   *memstore.Store // nil if a shared one is asked
	redis   *shared         // nil if states live in this process
	full    *fullLog        // of store
	metrics *metrics.Metrics
	doors   *doors
}

// serve runs the gateway until ctx ends and all requests have been answered.
func serve(ctx context.Context, c config, stdout io.Writer, log *slog.Logger) error {
	s, err := newServer(ctx, c, log)
	if err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return errors.Join(err, s.doors.close(), s.closeStore())
	}
	s.announce(stdout)
	return s.run(ctx)
}

// newServer wires everything and restores the state.
func newServer(ctx context.Context, c config, log *slog.Logger) (*server, error) {
	s := &server{config: c, log: log, metrics: metrics.New()}
	if err := s.openStore(); err != nil { //nolint:contextcheck // the connection outlives the start, and is closed by the server
		return nil, err
	}
	handler, err := s.handler()
	if err != nil {
		return nil, errors.Join(err, s.closeStore())
	}
	if c.state != "" {
		found, err := restoreState(s.store, c.state)
		if err != nil {
			return nil, errors.Join(err, s.closeStore())
		}
		log.Info("state", slog.String("file", c.state), slog.Bool("found", found), slog.Int("states", s.store.Stats().States))
	}
	s.doors = newDoors(ctx, handler, admin.Handler(s.adminOptions()), c.drain, log)
	return s, nil
}

// listen opens both doors, or fails.
func (s *server) listen(ctx context.Context) error {
	if err := s.doors.listen(ctx, file.Listener{Address: s.config.listen}); err != nil {
		return fmt.Errorf("--%w with --listen 127.0.0.1:PORT", err)
	}
	if s.config.admin == "" {
		return nil
	}
	if err := s.doors.listenAdmin(ctx, s.config.admin); err != nil {
		return fmt.Errorf("--%w; choose another with --admin 127.0.0.1:PORT, or --admin off", err)
	}
	return nil
}

// announce prints what is limited, how, and how to try it.
func (s *server) announce(stdout io.Writer) {
	var b strings.Builder
	to := s.upstream
	if to == "" {
		to = "the built-in sample app"
	}
	front := "http://" + s.doors.open[0].Addr().String()
	fmt.Fprintf(&b, "sluice: %s -> %s\n", front, to)
	for _, l := range s.limits {
		fmt.Fprintf(&b, "  limit  %v: %s\n", l, algo.Worst(l))
	}
	fmt.Fprintf(&b, "  by     %s\n", strings.Join(s.by, ", "))
	if s.redis != nil {
		fmt.Fprintf(&b, "  store  %v; while it is away %s\n", s.shared.target, s.shared.meanwhile())
	}
	if s.doors.adminSocket != nil {
		fmt.Fprintf(&b, "  admin  http://%s/metrics, /healthz, /readyz\n", s.doors.adminSocket.Addr())
	}
	flags, path, _ := strings.Cut(curlArgs(s.by, s.upstream == ""), "\x00")
	fmt.Fprintf(&b, "  try    curl -i %s'%s%s'\n", flags, front, path)
	if _, err := io.WriteString(stdout, b.String()); err != nil {
		s.log.Warn("standard output cannot be written", slog.Any("error", err)) // which is no reason not to serve
	}
}

// run serves until ctx ends, then lets what was begun finish, and saves the
// state.
func (s *server) run(ctx context.Context) error {
	err := s.doors.serve(ctx)
	if s.state != "" {
		err = errors.Join(err, saveState(s.store, s.state))
	}
	err = errors.Join(err, s.closeStore())
	s.log.Info("stopped")
	return err
}
