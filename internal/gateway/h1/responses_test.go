// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

const ok = "HTTP/1.1 200 OK\r\n"

// responses are what an upstream may answer the first request with, and what is then
// true.
var responses = []struct {
	name, method, raw string
	closes            bool // the upstream, behind it
	body              string
	kept              bool   // the connection
	fails             string // the exchange, or the body
}{
	{name: "a length", raw: ok + "Content-Length: 5\r\n\r\nfirst", body: "first", kept: true},
	{name: "no bytes", raw: ok + "Content-Length: 0\r\n\r\n", kept: true},
	{name: "a length twice", raw: ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nfirst", body: "first", kept: true},
	{name: "chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n2;x=y\r\nst\r\n0\r\n\r\n", body: "first", kept: true},
	{name: "trailers", raw: ok + "Trailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nX-T: 1\r\n\r\n", body: "first", kept: true},
	{name: "no content", raw: "HTTP/1.1 204 No Content\r\n\r\n", kept: true},
	{name: "not modified, with the length that it would have", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", kept: true},
	{name: "HEAD", method: http.MethodHead, raw: ok + "Content-Length: 5\r\n\r\n", kept: true},
	{name: "HEAD of chunks", method: http.MethodHead, raw: ok + "Transfer-Encoding: chunked\r\n\r\n", kept: true},
	{name: "hints first", raw: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nfirst", body: "first", kept: true},
	{name: "100 that nobody waits for", raw: "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nfirst", body: "first", kept: true},
	{name: "HTTP/1.0 that keeps", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nfirst", body: "first", kept: true},
	{name: "a length and chunks", raw: ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n", body: "first", kept: true},

	{name: "Connection: close", raw: ok + "Connection: close\r\nContent-Length: 5\r\n\r\nfirst", body: "first"},
	{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nfirst", body: "first"},
	{name: "until the end", raw: ok + "\r\nfirst", closes: true, body: "first"},
	{name: "a length, and closed", raw: ok + "Content-Length: 5\r\n\r\nfirst", closes: true, body: "first"},

	{name: "another response behind it", raw: ok + "Content-Length: 5\r\n\r\nfirst" + ok + "Content-Length: 6\r\n\r\npoison", body: "first"},
	{name: "bytes behind chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\nHTTP/1.1", body: "first"},
	{name: "a body of no content", raw: "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison"},
	{name: "a body of what is not modified", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison"},
	{name: "a body of HEAD", method: http.MethodHead, raw: ok + "Content-Length: 6\r\n\r\npoison"},
	{name: "HEAD of chunks that come", method: http.MethodHead, raw: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{name: "a line behind the length", raw: ok + "Content-Length: 5\r\n\r\nfirst\r\n", body: "first"},
	{name: "hints with a body", raw: "HTTP/1.1 103 Early Hints\r\nContent-Length: 6\r\n\r\npoison" + ok + "Content-Length: 5\r\n\r\nfirst", fails: "malformed"},

	{name: "two lengths", raw: ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nfirst!", fails: "multiple Content-Length"},
	{name: "two lengths in one", raw: ok + "Content-Length: 5, 5\r\n\r\nfirst", fails: "Content-Length"},
	{name: "a length below nothing", raw: ok + "Content-Length: -1\r\n\r\n", fails: "Content-Length"},
	{name: "a length with a sign", raw: ok + "Content-Length: +5\r\n\r\nfirst", fails: "Content-Length"},
	{name: "two encodings", raw: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fails: "transfer encodings"},
	{name: "encoded otherwise", raw: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", fails: "transfer encoding"},
	{name: "encoded, with a control character", raw: ok + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", fails: "malformed"},
	{name: "a length that is none, for a space", raw: ok + "Content-Length : 5\r\n\r\nfirst" + ok, closes: true, body: "first" + ok},
	{name: "a field in two lines at first", raw: ok + " folded: 1\r\nContent-Length: 5\r\n\r\nfirst", fails: "malformed"},
	{name: "not HTTP", raw: "220 ready\r\n", fails: "malformed"},
	{name: "a status of two digits", raw: "HTTP/1.1 20 OK\r\n\r\n", fails: "malformed"},
	{name: "a status below all", raw: "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n", fails: "status is 99"},
	{name: "a switch", raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", fails: "another protocol"},
	{name: "a large header", raw: ok + "X: " + strings.Repeat("x", 17<<10) + "\r\nContent-Length: 0\r\n\r\n", fails: "more than 16384 bytes"},
	{name: "hints without end", raw: strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 101) + ok + "Content-Length: 0\r\n\r\n", fails: "more than 100"},

	{name: "broken off", raw: ok + "Content-Length: 5\r\n\r\nfir", closes: true, body: "fir", fails: "unexpected EOF"},
	{name: "broken off in chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nfir", closes: true, body: "fir", fails: "unexpected EOF"},
	{name: "no last chunk", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n", closes: true, body: "fir", fails: "unexpected EOF"},
	{name: "a chunk of no number", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\nx\r\n", body: "fir", fails: "invalid byte"},
	{name: "a chunk longer than it says", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nfirst\r\n0\r\n\r\n", body: "fir", fails: "malformed chunked encoding"},
	{name: "long trailers", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n0\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", body: "fir", fails: "long trailer"},
	{name: "broken off in the header", raw: ok + "Content-Length: 5\r\n", closes: true, fails: "unexpected EOF"},
	{name: "nothing", closes: true, fails: "closed the connection before a response"},
}

// TestResponses: what comes behind a response, or was not read of it, is never taken
// for the response to another request.
func TestResponses(t *testing.T) {
	for _, c := range responses {
		t.Run(c.name, func(t *testing.T) {
			up := serveRaw(t, func(conn int, peer net.Conn, r *http.Request) bool {
				if r.URL.Path == "/first" {
					send(peer, c.raw)
					return !c.closes
				}
				body := fmt.Sprintf("second by %d", conn)
				send(peer, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok, len(body), body))
				return true
			})
			transport := newTransport(t, up.URL, nil)
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			got := fetch(transport, request(t.Context(), t, up.URL, method, "first"))
			failed := got.err
			if failed == nil {
				failed = got.broken
			}
			if (failed == nil) != (c.fails == "") || failed != nil && !strings.Contains(failed.Error(), c.fails) {
				t.Errorf("error %v, want %q", failed, c.fails)
			}
			if got.body != c.body {
				t.Errorf("body %q, want %q", got.body, c.body)
			}
			if c.name == "trailers" && got.trailer.Get("X-T") != "1" {
				t.Errorf("trailers %v", got.trailer)
			}
			want := "second by 2"
			if c.kept {
				want = "second by 1"
			}
			if got := fetch(transport, request(t.Context(), t, up.URL, http.MethodGet, "second")); got.body != want || got.err != nil || got.broken != nil {
				t.Errorf("then %+v, want %s", got, want)
			}
		})
	}
}
