// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Ports between firstPort and endPort are below those that systems give to clients
// and to servers that listen at port 0: tests that run at the same time use many of
// these.
const firstPort, endPort = 10_000, 32_000

// nextPort makes each port that a process asks for another one.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(endPort - firstPort)) }

// claims are the UDP sockets of the ports that this process has given away. They last as
// long as the process, so that no other process of tests gives the same port away before
// the server listens there.
var claims struct {
	mu      sync.Mutex
	sockets []net.PacketConn
}

// FreePort returns a port of 127.0.0.1 at which nobody listens, for a server that the
// test starts as a process.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 1000 {
		port := firstPort + int(nextPort.Add(1)%(endPort-firstPort))
		if err = claim(port); err == nil {
			return port
		}
	}
	t.Fatalf("find a free port: %v", err)
	return 0
}

// claim takes a port, or returns why it is not free.
func claim(port int) error {
	socket, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	claims.mu.Lock()
	defer claims.mu.Unlock()
	claims.sockets = append(claims.sockets, socket)
	return listener.Close()
}

// FreeAddress returns 127.0.0.1 with a port of [FreePort].
func FreeAddress(t testing.TB) string {
	t.Helper()
	return loopback(FreePort(t))
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
