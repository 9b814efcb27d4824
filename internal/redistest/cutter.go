// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
)

// Cutter is a proxy that passes commands on. After Cut, it cuts the connection
// on which the next script goes, in place of the reply.
type Cutter struct {
	Addr     string
	reported atomic.Bool
}

// StartCutter starts a Cutter before a server at an address. It ends with the
// test.
func StartCutter(t testing.TB, target string) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{Addr: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			c.pass(from, server)
		}
	}()
	return c
}

// Cut makes it do so.
func (c *Cutter) Cut() { c.reported.Store(true) }

// Waits reports whether no script has gone since Cut.
func (c *Cutter) Waits() bool { return c.reported.Load() }

// pass passes bytes between a client and a server until one of them ends.
func (c *Cutter) pass(client, server net.Conn) {
	var cut atomic.Bool
	go func() {
		defer func() { _ = server.Close() }()
		b := make([]byte, 64<<10)
		for {
			n, err := client.Read(b)
			if err != nil {
				return
			}
			if bytes.Contains(bytes.ToUpper(b[:n]), []byte("\nEVAL")) && c.reported.CompareAndSwap(true, false) {
				cut.Store(true)
			}
			if _, err := server.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { _ = client.Close() }()
		b := make([]byte, 64<<10)
		for {
			n, err := server.Read(b)
			if err != nil || cut.Load() {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
}
