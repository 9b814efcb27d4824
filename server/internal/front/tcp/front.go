// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp is the front of TCP: it passes connections on to an upstream.
package tcp

import (
	"errors"
	"net"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// Kind returns the kind of this front. The function options returns the Options of a listener,
// without its upstream.
func Kind(options func(*config.Listener) (tcp.Options, error)) front.Kind {
	return front.Kind{Name: "tcp", Gates: true, New: func(l *config.Listener) (front.Front, error) {
		o, err := options(l)
		if err != nil {
			return nil, err
		}
		o.Upstream = l.Upstream
		s, err := tcp.New(o)
		return &served{s, options}, err
	}}
}

// served is a Server as a [front.Front].
type served struct {
	*tcp.Server
	options func(*config.Listener) (tcp.Options, error)
}

// Listen implements [front.Front].
func (f *served) Listen(l net.Listener) net.Listener { return l }

// Serve implements [front.Front].
func (f *served) Serve(l net.Listener) error {
	if err := f.Server.Serve(l); !errors.Is(err, tcp.ErrServerClosed) {
		return err
	}
	return nil
}

// Prepare implements [front.Front]. It checks the limits and the upstream.
func (f *served) Prepare(s *front.Snapshot) (use func(), err error) {
	o, err := f.options(s.Listener)
	if err != nil {
		return nil, err
	}
	return f.Server.Prepare(s.Listener.Upstream, o.Limits)
}

// InFlight implements [front.Front].
func (f *served) InFlight() int { return 0 }
