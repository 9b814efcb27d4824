// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package port chooses ports for servers that a benchmark starts.
package port

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// claims are the UDP sockets of the ports that Free has returned.
var claims struct {
	mu      sync.Mutex
	sockets []net.PacketConn
}

// Free returns a port of 127.0.0.1 at which nobody listens. Its UDP port stays taken until the
// process ends, so that no other process that chooses in this way gets the port before the server
// listens there.
func Free(ctx context.Context) (port int, err error) {
	const first, end = 10_000, 32_000 // below those that systems give to clients
	var lc net.ListenConfig
	for range 100 {
		port = first + rand.IntN(end-first)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var claim net.PacketConn
		if claim, err = lc.ListenPacket(ctx, "udp", address); err != nil {
			continue
		}
		var l net.Listener
		if l, err = lc.Listen(ctx, "tcp", address); err == nil {
			claims.mu.Lock()
			defer claims.mu.Unlock()
			claims.sockets = append(claims.sockets, claim)
			return port, l.Close()
		}
		_ = claim.Close() // the port is another's
	}
	return 0, err
}
