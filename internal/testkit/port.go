// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
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

// FreePort returns a port of 127.0.0.1 at which nobody listens, for a server that the
// test starts as a process.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		port := firstPort + int(nextPort.Add(1)%(endPort-firstPort))
		if l, err = net.Listen("tcp", loopback(port)); err != nil {
			continue // another process listens there
		}
		if err = l.Close(); err != nil {
			t.Errorf("free the port: %v", err)
		}
		return port
	}
	t.Fatalf("find a free port: %v", err)
	return 0
}

// FreeAddress returns 127.0.0.1 with a port of [FreePort].
func FreeAddress(t testing.TB) string {
	t.Helper()
	return loopback(FreePort(t))
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
