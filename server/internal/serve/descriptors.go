// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"log/slog"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// defaultConnections is the default limit of open connections of clients. An idle one takes
// about 20 KB.
const defaultConnections = 20_000

// reservedDescriptors are kept for operators, stores and files.
const reservedDescriptors = 100

// shares holds the most connections of each kind.
type shares struct{ clients, abandoned, upstreams int64 }

// divide reduces wanted so that the connections fit a number of file descriptors; 0 means any
// number. A client's connection may need a second one to an upstream. A request without its
// client needs one, too, and all of these get at most one descriptor in ten.
func divide(wanted shares, descriptors int64) shares {
	if descriptors == 0 {
		return wanted
	}
	left := max(descriptors-reservedDescriptors, 2)
	s := wanted
	s.abandoned = min(s.abandoned, max(left/10, 1))
	s.clients = min(s.clients, max((left-s.abandoned)/2, 1))
	s.upstreams = min(s.upstreams, left-s.clients)
	return s
}

// setPlaces bounds the connections of clients and of upstreams. Upstreams may have more than
// clients, as an HTTP/2 client may have several requests at once.
func (s *runtime) setPlaces(c *config.Config) {
	descriptors := maxDescriptors()
	wanted := shares{clients: cmp.Or(c.MaxConnections, defaultConnections), abandoned: cmp.Or(c.Abandoned, gateway.DefaultAbandoned)}
	wanted.upstreams = max(wanted.clients, defaultConnections) + wanted.abandoned
	have := divide(wanted, descriptors)
	if have.clients < c.MaxConnections {
		s.log.Warn("fewer connections than max_connections can be open: this process may not have as many file descriptors; raise ulimit -n (LimitNOFILE=)",
			slog.Int64("max_connections", c.MaxConnections), slog.Int64("connections", have.clients), slog.Int64("descriptors", descriptors))
	}
	if have.abandoned < c.Abandoned {
		s.log.Warn("fewer requests than abandoned can continue without their client: this process may not have as many file descriptors; raise ulimit -n (LimitNOFILE=)",
			slog.Int64("abandoned", c.Abandoned), slog.Int64("requests", have.abandoned), slog.Int64("descriptors", descriptors))
	}
	s.places.Resize(int(have.clients))
	s.clients.Lingering.Resize(have.clients / 4)
	s.proxy.Abandoned.Resize(int(have.abandoned))
	s.proxy.Upstreams.Resize(have.upstreams)
}
