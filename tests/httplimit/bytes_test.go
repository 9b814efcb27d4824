// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
)

// cut is a body that breaks off, like that of a client that hangs up.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (cut) Close() error { return nil }

// reading answers a request after reading up to most bytes of its body.
func reading(most int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, io.LimitReader(r.Body, most)); err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
}

// TestDeclaredBytes: a body costs the bytes that were read, whatever its declared length,
// even if the client hangs up.
func TestDeclaredBytes(t *testing.T) {
	const limit = "  - {name: up, by: ip, cost: request-bytes, limits: 1000B/min sliding-log}\n"
	for _, c := range []struct {
		name           string
		declared, sent int
		read           int64 // by who answers, at most
		left           int
	}{
		{"all came and was read", 900, 900, 1 << 20, 100},
		{"a lie", 900, 10, 1 << 20, 990},
		{"gone in the middle", 900, 600, 1 << 20, 400},
		{"nothing came", 900, 0, 1 << 20, 1000},
		{"a part was read", 900, 900, 300, 700},
		{"nothing was read", 900, 900, 0, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen *http.Request
			g := newGuard(t, limit, func(w http.ResponseWriter, r *http.Request) {
				seen = r
				reading(c.read)(w, r)
			}, httplimit.Options{})
			r := requestOf(t, "POST", "/", "")
			r.ContentLength, r.Body = int64(c.declared), cut{strings.NewReader(strings.Repeat("x", c.sent))}
			answer(g, r)
			// Bytes read after the settlement would cost nothing.
			if n, err := seen.Body.Read(make([]byte, 10)); n != 0 || err == nil {
				t.Errorf("read %d more bytes after the answer, %v", n, err)
			}
			for _, next := range []struct{ size, want int }{{c.left + 1, 429}, {c.left, 200}} {
				if w := answer(g, requestOf(t, "POST", "/", strings.Repeat("x", next.size))); w.Code != next.want {
					t.Errorf("%d bytes: got %d, want %d", next.size, w.Code, next.want)
				}
			}
		})
	}
}

// TestDeclaredBytesHungUp: on a real connection a client that hangs up in the middle of its
// body has spent the bytes that arrived, and gets the rest back.
func TestDeclaredBytesHungUp(t *testing.T) {
	settled := make(chan struct{}, 1)
	g := newGuard(t, "  - {name: up, by: ip, cost: request-bytes, limits: 60000B/min sliding-log}\n", reading(1<<30), httplimit.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(w, r)
		settled <- struct{}{}
	}))
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", 20_000)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-settled
	for _, next := range []struct{ size, want int }{{40_001, 429}, {40_000, 200}} {
		r := requestOf(t, "POST", "/", strings.Repeat("x", next.size))
		r.RemoteAddr = "127.0.0.1:4711"
		if w := answer(g, r); w.Code != next.want {
			t.Errorf("%d bytes: got %d, want %d", next.size, w.Code, next.want)
		}
	}
}
