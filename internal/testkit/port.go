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

// Ports from firstPort to endPort are below those that systems assign to clients and to
// servers that listen at port 0. Tests that run at the same time use many of those.
const firstPort, endPort = 10_000, 32_000

// nextPort makes each call of FreePort in a process try another port.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(endPort - firstPort)) }

// claims are the UDP sockets of the ports that FreePort has returned. They stay open until
// the process ends, so that no other process of tests returns the same port before the
// server listens there.
var claims struct {
	mu      sync.Mutex
	sockets []net.PacketConn
}

// FreePort returns a port of 127.0.0.1 at which no server listens, for one that the test
// starts as a process.
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

// claim takes a port, or returns an error if it is not free.
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
