// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// switched returns an upstream that switches protocol and lets talk speak.
func switched(t *testing.T, talk func(net.Conn, io.Reader)) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw := hijack(t, w, switching)
		talk(conn, rw)
		// The end of the test may have closed it already.
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			check(t, err)
		}
	}))
}

// switches returns a client's connection that has switched protocol.
func switches(t *testing.T, url string) (*net.TCPConn, io.Reader) {
	t.Helper()
	return switchesWith(t, url, "")
}

// switchesWith is switches with some bytes of the client in one packet with its request.
func switchesWith(t *testing.T, url, early string) (*net.TCPConn, io.Reader) {
	t.Helper()
	conn, r := dial(t, url, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"+early)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, resp.Body.Close())
	return conn, r
}

// limited returns g behind limits that need not see its responses.
func limited(t *testing.T, g http.Handler) http.Handler {
	t.Helper()
	return behind(t, g, sluice.PerSecond(100))
}

// watched returns g behind limits that count the bytes of its responses.
func watched(t *testing.T, g http.Handler) http.Handler {
	t.Helper()
	return behind(t, g, sluice.MustParseLimit("1GB/s"))
}

func behind(t *testing.T, g http.Handler, limit sluice.Limit) http.Handler {
	t.Helper()
	mw, err := httplimit.Limit(memstore.New(memstore.Options{}), "all", policy.IP(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return mw.Wrap(g)
}

// sendAll sends all bytes and closes its direction.
func sendAll(t *testing.T, conn net.Conn, all []byte) {
	t.Helper()
	if _, err := conn.Write(all); err != nil {
		t.Error(err)
	}
	check(t, conn.(*net.TCPConn).CloseWrite())
}

// receiveAll reads until the other side has closed its direction.
func receiveAll(t *testing.T, r io.Reader, want []byte) {
	t.Helper()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(want))
	}
}

// TestHalfClose: after a switch of protocol, a side that has sent all still receives the
// other's bytes, whichever is first.
func TestHalfClose(t *testing.T) {
	question, answer := bytes.Repeat([]byte("0123456789abcdef"), 1<<16), bytes.Repeat([]byte("fedcba"), 1<<18)
	for _, c := range []struct {
		name          string
		watched, last bool // the client is the last to send
	}{
		{"client first", false, false},
		{"upstream first", false, true},
		{"client first, behind limits", true, false},
		{"upstream first, behind limits", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := make(chan struct{})
			g, err := gateway.New(switched(t, func(conn net.Conn, r io.Reader) {
				defer close(done)
				if c.last {
					sendAll(t, conn, answer)
				}
				receiveAll(t, r, question)
				if !c.last {
					sendAll(t, conn, answer)
				}
			}), gateway.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var handler http.Handler = g
			if c.watched {
				handler = watched(t, g)
			}
			conn, r := switches(t, serve(t, gateway.WithDeadlines(handler, time.Minute), g.Close))
			if c.last {
				receiveAll(t, r, answer)
			}
			sendAll(t, conn, question)
			if !c.last {
				receiveAll(t, r, answer)
			}
			<-done
		})
	}
}

// TestSentWithTheSwitch: bytes that a client sends in one packet with its request for a
// switch, without waiting for the answer, reach the upstream before later ones, with any
// handlers around the gateway.
func TestSentWithTheSwitch(t *testing.T) {
	for _, c := range []struct {
		name   string
		around func(*testing.T, http.Handler) http.Handler
	}{
		{"alone", func(_ *testing.T, g http.Handler) http.Handler { return g }},
		{"behind limits", limited},
		{"behind limits that watch", watched},
	} {
		for _, early := range []string{"", "0", strings.Repeat("early ", 300)} {
			t.Run(fmt.Sprintf("%s, %d bytes", c.name, len(early)), func(t *testing.T) {
				const later = "and what follows"
				g, err := gateway.New(switched(t, func(conn net.Conn, r io.Reader) {
					receiveAll(t, r, []byte(early+later))
					sendAll(t, conn, []byte("all is here"))
				}), gateway.Options{})
				if err != nil {
					t.Fatal(err)
				}
				conn, r := switchesWith(t, serve(t, gateway.WithDeadlines(c.around(t, g), time.Minute), g.Close), early)
				sendAll(t, conn, []byte(later))
				receiveAll(t, r, []byte("all is here"))
			})
		}
	}
}

// TestSwitchBeforeTheBody: a request with a body is sent without its upgrade. An upstream that
// switches nevertheless, before the body has ended, is not followed: the transport still reads
// from the connection, as the race detector would see.
func TestSwitchBeforeTheBody(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if up := r.Header["Upgrade"]; up != nil {
			t.Errorf("asked to switch to %q", up)
		}
		conn, _ := hijack(t, w, switching)
		_, _ = io.Copy(io.Discard, conn) // until the gateway gives up
	}))
	g, err := gateway.New(upstream, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, gateway.WithDeadlines(watched(t, g), time.Minute), g.Close)
	for _, body := range []string{
		"Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 100),
		"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 100),
	} {
		conn, answers := dial(t, url, "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n"+body)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusBadGateway {
			t.Errorf("answered %d", resp.StatusCode)
		}
		for range 10 {
			if _, err := io.WriteString(conn, "1\r\nx\r\n"); err != nil {
				break // the gateway has given up
			}
		}
		check(t, resp.Body.Close())
	}
}
