// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/config"
)

// TestUntaken: a client that reads nothing more of its connection over HTTP/2 holds no
// handler up: its connection is closed.
func TestUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ended := time.Now(), make(chan error, 1)
		s := &runtime{log: discard()}
		s.current.Store(&snapshot{config: &config.Config{}, handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			ended <- err
		})})
		d := newListeners(t.Context(), s, nil, 0)
		o := &listener{}
		d.newFront(o)
		ours, theirs := net.Pipe()
		l := make(one, 1)
		l <- theirs
		close(l)
		if err := o.front.Serve(l); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		go func() { _, _ = io.CopyN(io.Discard, ours, 200) }() // no more than the server's settings
		for _, text := range []string{
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x7f\xff\xff\xff", // streams may bring any number of bytes,
			"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\x00\x00\x00",         // and so may the connection
			"\x00\x00\x06\x01\x05\x00\x00\x00\x01" + "\x82\x86\x84\x41\x01x",    // GET http://x/
		} {
			if _, err := io.WriteString(ours, text); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("all was written")
			}
		default:
			t.Error("the handler waits for the client")
		}
		if _, err := ours.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v later the connection is open: %v", time.Since(began), err)
		}
		if err := errors.Join(ours.Close(), o.front.Close()); err != nil {
			t.Error(err)
		}
	})
}
