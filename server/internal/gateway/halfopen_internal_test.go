// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// unending is a connection whose peer does not see that it is half closed.
type unending struct{ net.Conn }

func (unending) CloseWrite() error { return nil }

// TestSilentAfterClient: once its client has left, a connection that has switched protocol ends
// ten minutes after the upstream's last byte.
func TestSilentAfterClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n") // the client checks it
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}))
		var upstream net.Conn
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := up.Dial(ctx, network, address)
			upstream = unending{conn}
			return upstream, err
		}
		g, err := New("http://upstream.example", Options{Dial: dial, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.ServeHTTP(w, r)
			ended <- time.Now()
		})).Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(resp, err)
		}
		time.Sleep(time.Hour) // both sides may be silent for any time
		left := time.Now()
		if err := errors.Join(resp.Body.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		select {
		case end := <-ended:
			if after := end.Sub(left); after != 10*time.Minute {
				t.Errorf("ended after %v", after)
			}
		case <-ctx.Done():
			t.Error("not ended after an hour")
		}
		if err := upstream.Close(); err != nil {
			t.Error(err)
		}
		g.Close()
	})
}

// TestHalfOpen: after the end of the client's side the upstream may be silent for ten minutes from
// each byte on.
func TestHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		c := &halfOpen{ReadWriteCloser: unending{ours}}
		sent := make(chan time.Time, 1)
		go func() {
			for range 3 {
				time.Sleep(9 * time.Minute)
				_, _ = io.WriteString(theirs, "x") // the reader checks it
			}
			sent <- time.Now()
		}()
		time.Sleep(time.Minute)
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		text, err := io.ReadAll(c)
		if string(text) != "xxx" || !errors.Is(err, io.ErrClosedPipe) || time.Since(<-sent) != 10*time.Minute {
			t.Errorf("%q, %v", text, err)
		}
		if err := errors.Join(c.Close(), theirs.Close()); err != nil {
			t.Error(err)
		}
	})
}
