// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// TestGate: a gate admits as many connections as may be open. Each frees its slot when it is
// closed, and stays open when the gate is closed.
func TestGate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	places := tcp.NewPlaces(5)
	g, err := tcp.NewGate(l, tcp.Options{
		SlotStore: memstore.New(memstore.Options{}), Places: places, Limits: keyed(tcp.Limits{Open: sluice.SlotLimit{Cap: 1}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		t.Helper()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // it may have been reset
		return c
	}
	var last net.Conn
	for range 3 {
		client := dial()
		in, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var d net.Dialer
		if second, err := d.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil { // else it was reset earlier
			if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("a second was not reset: %v", err)
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		}
		if last = in; client.Close() != nil {
			t.Error("not closed")
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		for places.Taken() > 0 && t.Context().Err() == nil {
		}
	}
	if err := last.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	client := dial()
	in, err := g.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := g.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept of a closed gate: %v", err)
	}
	if _, err := io.WriteString(client, "x"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
		t.Errorf("a connection that was let in does not outlast the gate: %v", err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestGateNeverServed: a gate without an Accept closes like any listener.
func TestGateNeverServed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := tcp.NewGate(l, tcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := g.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
