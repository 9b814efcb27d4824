// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"log/slog"
)

// defaultConnections is how many connections of clients are open at once if a file
// does not say. Each takes about 20 KB while it is idle.
const defaultConnections = 20_000

// reservedDescriptors are kept from clients: for operators, stores and files.
const reservedDescriptors = 100

// mostConnections returns how many connections of clients there may be where a
// process may have so many file descriptors; 0 is any number of them. Each needs
// another one to an upstream.
func mostConnections(wanted, descriptors int64) int64 {
	if descriptors == 0 {
		return wanted
	}
	return min(wanted, max((descriptors-reservedDescriptors)/2, 1))
}

// setPlaces bounds the connections of clients.
func (s *runtime) setPlaces(wanted int64) {
	descriptors := maxDescriptors()
	most := mostConnections(cmp.Or(wanted, defaultConnections), descriptors)
	if most < wanted {
		s.log.Warn("fewer connections than max_connections can be open: this process may not have as many file descriptors; raise ulimit -n (LimitNOFILE=)",
			slog.Int64("max_connections", wanted), slog.Int64("connections", most), slog.Int64("descriptors", descriptors))
	}
	s.places.Resize(int(most))
}
