// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntaken: a client that reads nothing more of its HTTP/2 connection does not block a
// handler: its connection is closed.
func TestUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			ended <- err
		})
		ours, o := overPipe(t, handler)
		go func() { _, _ = io.CopyN(io.Discard, ours, 200) }() // no more than the server's settings
		for _, text := range []string{
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x7f\xff\xff\xff", // streams may receive any number of bytes,
			"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\x00\x00\x00",         // and so may the connection
			"\x00\x00\x06\x01\x05\x00\x00\x00\x01" + "\x82\x86\x84\x41\x01x",    // GET http://x/
		} {
			if _, err := io.WriteString(ours, text); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Minute)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("all was written")
			}
		default:
			t.Error("the handler waits for the client")
		}
		if _, err := ours.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is open: %v", err)
		}
		if err := errors.Join(ours.Close(), o.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestHalfAHeader: over HTTP/2, too, an unfinished header holds its connection for a bounded
// time.
func TestHalfAHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := http.NotFoundHandler()
		ours, o := overPipe(t, handler)
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		for _, text := range []string{
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"\x00\x00\x00\x04\x00\x00\x00\x00\x00",          // the client's settings
			"\x00\x00\x01\x01\x01\x00\x00\x00\x01" + "\x82", // half a header: GET
		} {
			if _, err := io.WriteString(ours, text); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(IdleTimeout + time.Minute)
		if _, err := ours.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is open: %v", err)
		}
		if err := errors.Join(ours.Close(), o.Close()); err != nil {
			t.Error(err)
		}
	})
}
