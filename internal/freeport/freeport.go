// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package freeport finds ports for servers that tests start as processes.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports between first and end are below those that systems give to clients and to who
// listens at port 0, of which there are many in tests that run at the same time.
const first, end = 10_000, 32_000

// asked makes each port that a process asks for another.
var asked atomic.Int64

func init() { asked.Store(rand.Int64N(end - first)) }

// Port returns a port of 127.0.0.1 at which nobody listens.
func Port(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		port := first + int(asked.Add(1)%(end-first))
		if l, err = net.Listen("tcp", join(port)); err != nil {
			continue // somebody has it
		}
		if err = l.Close(); err != nil {
			t.Errorf("free the port: %v", err)
		}
		return port
	}
	t.Fatalf("find a free port: %v", err)
	return 0
}

// Address returns 127.0.0.1 and a [Port].
func Address(t testing.TB) string {
	t.Helper()
	return join(Port(t))
}

func join(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
