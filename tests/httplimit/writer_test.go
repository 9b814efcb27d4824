// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// The writers below have some of the methods that net/http's writers may have.
type plainWriter struct{ http.ResponseWriter }

type flushWriter struct {
	plainWriter
	flushed *int
}

func (w flushWriter) Flush() { *w.flushed++ }

type hijackWriter struct{ plainWriter }

var errHijacked = errors.New("hijacked")

func (hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errHijacked }

type bothWriter struct {
	flushWriter
	hijackWriter
}

func (w bothWriter) Header() http.Header         { return w.flushWriter.Header() }
func (w bothWriter) Write(p []byte) (int, error) { return w.flushWriter.Write(p) }
func (w bothWriter) WriteHeader(status int)      { w.flushWriter.WriteHeader(status) }

type unwrapWriter struct{ flushWriter }

func (w unwrapWriter) Unwrap() http.ResponseWriter { return w.flushWriter }

// counted wraps a handler such that its responses are counted.
func counted(t *testing.T, h http.HandlerFunc) http.Handler {
	t.Helper()
	return newMiddleware(t, httplimit.Options{
		Store: newStore(newClock()),
		Rules: []policy.Rule{rule(t, "bytes", policy.IP(), "b: 1MB/min")},
	}).Wrap(h)
}

// A handler finds the methods of the underlying writer, and no others.
func TestWriterKeepsInterfaces(t *testing.T) {
	flushed := 0
	plain := plainWriter{httptest.NewRecorder()}
	flush := flushWriter{plain, &flushed}
	for _, c := range []struct {
		name           string
		w              http.ResponseWriter
		flush, hijack  bool // asked of the writer itself
		control        bool // flush through ResponseController
		controlHijacks bool
	}{
		{"plain", plain, false, false, false, false},
		{"flusher", flush, true, false, true, false},
		{"hijacker", hijackWriter{plain}, false, true, false, true},
		{"both", bothWriter{flush, hijackWriter{plain}}, true, true, true, true},
		{"below an Unwrap", unwrapWriter{flush}, true, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := false
			h := counted(t, func(w http.ResponseWriter, _ *http.Request) {
				called = true
				f, isFlusher := w.(http.Flusher)
				j, isHijacker := w.(http.Hijacker)
				if isFlusher != c.flush || isHijacker != c.hijack {
					t.Errorf("Flusher %v, Hijacker %v; want %v, %v", isFlusher, isHijacker, c.flush, c.hijack)
				}
				want := flushed
				if isFlusher {
					f.Flush()
					want++
				}
				if err := http.NewResponseController(w).Flush(); (err == nil) != c.control {
					t.Errorf("ResponseController.Flush: %v", err)
				} else if err == nil {
					want++
				}
				if flushed != want {
					t.Errorf("flushed %d times, want %d", flushed, want)
				}
				if isHijacker {
					if _, _, err := j.Hijack(); !errors.Is(err, errHijacked) {
						t.Errorf("Hijack: %v", err)
					}
				}
				if _, _, err := http.NewResponseController(w).Hijack(); errors.Is(err, errHijacked) != c.controlHijacks {
					t.Errorf("ResponseController.Hijack: %v", err)
				}
			})
			h.ServeHTTP(c.w, request(t, "/"))
			if !called {
				t.Error("the handler was not called")
			}
		})
	}
}

// readerFrom records that ReadFrom was called.
type readerFrom struct {
	http.ResponseWriter
	source io.Reader
}

func (w *readerFrom) ReadFrom(src io.Reader) (int64, error) {
	w.source = src
	return io.Copy(struct{ io.Writer }{w.ResponseWriter}, src)
}

// The underlying writer gets the very reader that the handler copied from: that is how net/http
// sends a file without copying it through memory.
func TestReadFromReachesTheWriterBelow(t *testing.T) {
	source := &struct{ io.Reader }{strings.NewReader("0123456789")}
	below := &readerFrom{ResponseWriter: httptest.NewRecorder()}
	counted(t, func(w http.ResponseWriter, _ *http.Request) {
		if n, err := io.Copy(w, source); n != 10 || err != nil {
			t.Errorf("copied %d, %v", n, err)
		}
	}).ServeHTTP(below, request(t, "/"))
	if below.source != io.Reader(source) {
		t.Errorf("the writer below was given %v", below.source)
	}
}

// A hijacked connection, as for a websocket, works as before.
func TestHijackOverSockets(t *testing.T) {
	srv := httptest.NewServer(counted(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
		write(t, rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if err := rw.Flush(); err != nil {
			t.Error(err)
		}
		line, err := rw.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		write(t, rw, strings.ToUpper(line))
		if err := rw.Flush(); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, conn)
	write(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	write(t, conn, "hello\n")
	if got, err := in.ReadString('\n'); got != "HELLO\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// The names have this case on the wire.
func TestFieldNamesOnTheWire(t *testing.T) {
	srv := httptest.NewServer(newMiddleware(t, httplimit.Options{
		Store:  newStore(newClock()),
		Rules:  []policy.Rule{rule(t, "api", policy.IP(), "a: 1/min")},
		Fields: httplimit.Draft11 | httplimit.XRateLimit,
	}).Wrap(ok))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, conn)
	for range 2 {
		write(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	write(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	answers, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"HTTP/1.1 200 OK":                              1,
		"HTTP/1.1 429 Too Many Requests":               2,
		`RateLimit-Policy: "api";q=1;w=60`:             3,
		`RateLimit: "api";r=0;t=60`:                    3,
		`RateLimit-Warning: "api";r=0;t=60;why="near"`: 1,
		"Retry-After: 60":                              2,
		"X-RateLimit-Limit: 1":                         3,
		"X-RateLimit-Remaining: 0":                     3,
		"X-RateLimit-Reset: 60":                        3,
		"X-Ratelimit-Retry-After: 60":                  2,
		"Content-Type: application/problem+json":       2,
		"Content-Type: text/plain; charset=utf-8":      1,
		"Cache-Control: no-store":                      2,
	} {
		if got := strings.Count("\n"+string(answers), "\n"+line+"\r\n"); got != want {
			t.Errorf("%q: %d times, want %d, in\n%s", line, got, want, answers)
		}
	}
}
