// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntaken: the bytes of a response that its client does not take are bounded over HTTP/2.
func TestUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part, all = 1 << 10, 8 << 20 // more than all buffers hold
		sent := 0
		up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(all))
			for sent < all {
				if _, err := w.Write(make([]byte, part)); err != nil {
					return
				}
				sent += part
			}
		}))
		g, err := New("h2c://upstream.example", Options{Dial: up.Dial})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := overPipes(t, WithDeadlines(g, time.Minute)).Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		const passing = 64 << 10 // in buffers of both servers and of the copying
		if sent < maxUntaken || sent > maxUntaken+passing {
			t.Errorf("%d bytes came, want %d and what is passing", sent, maxUntaken)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		g.Close()
	})
}
