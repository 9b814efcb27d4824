// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answerTime bounds a response in these tests.
const answerTime = time.Minute

// spoken is an upstream in memory that serves each connection by speak.
type spoken struct {
	speak       func(c net.Conn, in *bufio.Reader)
	connections int
	requests    int
}

func (u *spoken) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	u.connections++
	go func() {
		defer theirs.Close() //nolint:errcheck // closing a pipe returns nil
		u.speak(theirs, bufio.NewReader(theirs))
	}()
	return ours, nil
}

// next reads a request with its body, and reports false once the connection is closed.
func (u *spoken) next(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	u.requests++
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// say writes texts, each after a pause. It ignores a reader that has left.
func say(c net.Conn, after time.Duration, texts ...string) {
	for _, text := range texts {
		time.Sleep(after)
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// final records the last status, and counts the others.
type final struct {
	*httptest.ResponseRecorder
	hints *int
}

func (f final) WriteHeader(status int) {
	if status < http.StatusOK {
		*f.hints++
		return
	}
	f.ResponseRecorder.WriteHeader(status)
}

const answered = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// bodyOf returns a request's body of the parts, each after a pause.
func bodyOf(after time.Duration, parts ...string) io.Reader {
	r, w := io.Pipe()
	go func() {
		for _, p := range parts {
			time.Sleep(after)
			_, _ = io.WriteString(w, p) // the reader may have left
		}
		_ = w.Close() // always nil
	}()
	return r
}

// TestAnswerTime: a response has its full time, from the end of the request to the end of its
// header, and no more; a request that takes too long is sent once.
func TestAnswerTime(t *testing.T) {
	type result struct {
		status                       int
		took                         time.Duration
		requests, connections, hints int
	}
	ask := func(g *Gateway, kept bool, body io.Reader) (status int, took time.Duration, hints int) {
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		w, began := final{httptest.NewRecorder(), &hints}, time.Now()
		var handler http.Handler = g
		if kept {
			handler = new(longRun).settling(g)
		}
		handler.ServeHTTP(w, httptest.NewRequest(method, "/", body))
		return w.Code, time.Since(began), hints
	}
	for _, c := range []struct {
		name   string
		speak  func(u *spoken, c net.Conn, in *bufio.Reader)
		before func(ask func(io.Reader))
		body   func() io.Reader
		want   result
	}{
		{
			"in time, on one connection", func(u *spoken, c net.Conn, in *bufio.Reader) {
				for u.next(in) {
					say(c, 59*time.Second, answered)
				}
			},
			func(ask func(io.Reader)) {
				for i := range 5 {
					ask(nil)
					time.Sleep(time.Duration(i*20) * time.Second)
				}
			},
			nil,
			result{200, 59 * time.Second, 6, 1, 0},
		},
		{
			"in time, after a body that takes longer", func(u *spoken, c net.Conn, in *bufio.Reader) {
				for u.next(in) {
					say(c, 50*time.Second, answered)
				}
			},
			nil, func() io.Reader { return bodyOf(50*time.Second, "a", "b", "c") },
			result{200, 200 * time.Second, 1, 1, 0},
		},

		{
			"silent", func(u *spoken, _ net.Conn, in *bufio.Reader) {
				u.next(in)
				u.next(in)
			},
			nil, nil,
			result{504, answerTime, 1, 1, 0},
		},
		{
			"silent on a connection that was used", func(u *spoken, c net.Conn, in *bufio.Reader) {
				for range 2 {
					u.next(in)
					say(c, time.Second, answered)
				}
				u.next(in)
				u.next(in)
			},
			func(ask func(io.Reader)) {
				ask(nil)
				time.Sleep(30 * time.Second)
				ask(nil)
				time.Sleep(80 * time.Second) // until nothing is awaited
			},
			nil,
			result{504, answerTime, 3, 1, 0},
		},
		{
			"a header that comes by bytes", func(u *spoken, c net.Conn, in *bufio.Reader) {
				u.next(in)
				say(c, 20*time.Second, strings.Split(answered, "")...)
			},
			nil, nil,
			result{504, answerTime, 1, 1, 0},
		},
		{
			"hints and no answer", func(u *spoken, c net.Conn, in *bufio.Reader) {
				u.next(in)
				hint := "HTTP/1.1 103 Early Hints\r\n\r\n"
				say(c, 25*time.Second, hint, hint, hint, hint, answered)
			},
			nil, nil,
			result{504, answerTime, 1, 1, 2},
		},

		{
			"a request that is taken late", func(u *spoken, c net.Conn, in *bufio.Reader) {
				time.Sleep(50 * time.Second)
				u.next(in)
				say(c, 50*time.Second, answered)
			},
			nil, nil,
			result{200, 100 * time.Second, 1, 1, 0},
		},
		{
			"a body that takes longer", func(u *spoken, c net.Conn, in *bufio.Reader) {
				u.next(in)
				say(c, 50*time.Second, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "a", "b", "c", "d")
			},
			nil, nil,
			result{200, 250 * time.Second, 1, 1, 0},
		},
		{
			"an answer before the end of the request", func(u *spoken, c net.Conn, in *bufio.Reader) {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				u.requests++
				say(c, 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				_, _ = io.Copy(io.Discard, r.Body) // it may be cut off
				say(c, 90*time.Second, "ok")
			},
			nil, func() io.Reader { return bodyOf(50*time.Second, "a", "b") },
			result{200, 190 * time.Second, 1, 1, 0},
		},
		{
			"closed at once", func(u *spoken, _ net.Conn, in *bufio.Reader) { u.next(in) },
			nil, nil,
			result{502, 0, 1, 1, 0},
		},
		{
			"closed at once on a connection that was used", func(u *spoken, c net.Conn, in *bufio.Reader) {
				u.next(in)
				say(c, time.Second, answered)
				if u.connections == 1 {
					u.next(in)
				}
			},
			func(ask func(io.Reader)) { ask(nil) },
			nil,
			result{200, time.Second, 3, 2, 0}, // it may be sent again
		},
	} {
		for _, kept := range []bool{false, true} {
			name := c.name
			if kept {
				name += ", outlives its client"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := &spoken{}
					u.speak = func(conn net.Conn, in *bufio.Reader) { c.speak(u, conn, in) }
					g, err := New("http://up.example", Options{ResponseTimeout: answerTime, StallTimeout: standing, Dial: u.dial, Log: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					if c.before != nil {
						c.before(func(body io.Reader) {
							if status, _, _ := ask(g, kept, body); status != http.StatusOK {
								t.Errorf("before: %d", status)
							}
						})
					}
					var body io.Reader
					if c.body != nil {
						body = c.body()
					}
					var got result
					got.status, got.took, got.hints = ask(g, kept, body)
					time.Sleep(time.Hour) // everything else ends
					synctest.Wait()
					got.requests, got.connections = u.requests, u.connections
					if got != c.want {
						t.Errorf("got %+v, want %+v", got, c.want)
					}
					g.Close()
				})
			})
		}
	}
}
