// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// front returns the address of a server with a Gateway to upstream.
func front(t *testing.T, upstream string, opts gateway.Options) string {
	t.Helper()
	opts.Log = slog.New(slog.DiscardHandler)
	g, err := gateway.New(upstream, opts)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, gateway.WithDeadlines(g, time.Minute), g.Close)
}

// serve returns the address of a server with handler on a real socket.
func serve(t *testing.T, handler http.Handler, after ...func()) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(failing{t}, "", 0) // net/http reports panics there
	server.Start()
	t.Cleanup(func() {
		for _, f := range after {
			f()
		}
		server.Close()
	})
	return server.URL
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// closeAtEnd closes c when the test is over.
func closeAtEnd(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// dial connects to a server, sends it a text, and returns a reader of its answers.
func dial(t *testing.T, url, text string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, conn)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn), bufio.NewReader(conn) //nolint:forcetypeassert // a TCP connection
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"

// hijack returns the connection of a request, after sending text on it. It is closed when the
// test is over.
func hijack(t *testing.T, w http.ResponseWriter, text string) (net.Conn, *bufio.ReadWriter) {
	t.Helper()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	closeAtEnd(t, conn)
	_, err = io.WriteString(conn, text)
	check(t, err)
	return conn, rw
}

// failing is a log whose lines fail the test.
type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("server: %s", line)
	return len(line), nil
}

// reply is a response whose body is closed when the test is over.
type reply struct {
	status int
	header http.Header
	body   *bufio.Reader
}

// do sends a request on a connection of its own.
func do(t *testing.T, method, url string, body io.Reader) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, resp.Body.Close()) })
	return replyOf(resp)
}

// replyOf returns resp, whose body the caller closes.
func replyOf(resp *http.Response) reply {
	return reply{resp.StatusCode, resp.Header, bufio.NewReader(resp.Body)}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStreams: each write of the upstream arrives before the next one, with and without a
// known length.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
	}{
		{"server-sent events", http.Header{"Content-Type": {"text/event-stream"}}},
		{"chunked", http.Header{"Content-Type": {"application/json"}}},
		{"of known length", http.Header{"Content-Length": {"12"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan struct{})
			upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				maps.Copy(w.Header(), c.header)
				for range 3 {
					if _, err := io.WriteString(w, "one\n"); err != nil {
						t.Error(err)
					}
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
					select {
					case <-seen: // only now the next one
					case <-r.Context().Done():
						return
					}
				}
			}))
			lines := do(t, http.MethodGet, front(t, upstream, gateway.Options{}), nil).body
			for range 3 {
				if line, err := lines.ReadString('\n'); err != nil || line != "one\n" {
					t.Fatalf("read %q, %v", line, err)
				}
				seen <- struct{}{}
			}
		})
	}
}

// TestPartsGoOn: neither the header nor a part of a response of known length waits for the
// rest.
func TestPartsGoOn(t *testing.T) {
	const part = "part of three"
	seen := make(chan struct{}, 3)
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(3*len(part)))
		for range 3 {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-seen:
				_, _ = io.WriteString(w, part) // the client sees an error
			case <-time.After(testkit.Ceiling):
				t.Error("the client has not seen what was sent")
				return // this breaks the response off
			}
		}
	}))
	url := front(t, upstream, gateway.Options{})
	for range 3 {
		resp := do(t, http.MethodGet, url, nil)
		for range 3 {
			seen <- struct{}{}
			got := make([]byte, len(part))
			if _, err := io.ReadFull(resp.body, got); err != nil || string(got) != part {
				t.Fatalf("read %q, %v", got, err)
			}
		}
	}
}

// TestStreamsBothWays: the response begins while the request's body is still being sent.
func TestStreamsBothWays(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.WriteString(w, strings.ToUpper(line)); err != nil {
				t.Error(err)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
	}))
	body, send := io.Pipe()
	first := make(chan struct{})
	go func() {
		<-first
		if _, err := io.WriteString(send, "first\n"); err != nil {
			t.Error(err)
		}
	}()
	close(first)
	answers := do(t, http.MethodPost, front(t, upstream, gateway.Options{}), body).body
	for i, next := range []string{"second\n", "third\n", ""} {
		want := []string{"FIRST\n", "SECOND\n", "THIRD\n"}[i]
		if got, err := answers.ReadString('\n'); err != nil || got != want {
			t.Fatalf("answer %d is %q, %v; want %q", i+1, got, err, want)
		}
		if next == "" {
			break
		}
		if _, err := io.WriteString(send, next); err != nil {
			t.Fatal(err)
		}
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if rest := readAll(t, answers); rest != "" {
		t.Errorf("after the end: %q", rest)
	}
}

// TestSwitchesProtocol: after 101 both ends send at any time, as websockets do.
func TestSwitchesProtocol(t *testing.T) {
	ended := make(chan struct{}) // the upstream's direction
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if got := r.Header.Get("Upgrade"); got != "websocket" {
			t.Errorf("upgrade to %q", got)
		}
		conn, rw := hijack(t, w, strings.Replace(switching, "x", "websocket", 1)+"hello ")
		if _, err := io.Copy(conn, rw); err != nil {
			t.Error(err)
		}
		check(t, conn.Close())
	}))
	conn, r := dial(t, front(t, upstream, gateway.Options{}), "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, resp.Body.Close()) })
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", resp.StatusCode)
	}
	got := make([]byte, len("hello \x00\xffping"))
	if _, err := io.WriteString(conn, "\x00\xffping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello \x00\xffping" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest := readAll(t, r); rest != "" {
		t.Errorf("after the end: %q", rest)
	}
	<-ended
}
