// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

var pieces = []string{
	"HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 204 No Content\r\n", "HTTP/1.1 304 NM\r\n", "HTTP/1.1 100 C\r\n", "HTTP/1.1 103 E\r\n", "HTTP/1.1 199 X\r\n",
	"HTTP/1.1 205 RC\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/0.9 200 OK\r\n", "HTTP/1.2 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.1  200 OK\r\n", "HTTP/1.1 +20 OK\r\n", "HTTP/1.1 999 OK\r\n",
	"Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 05\r\n", "Content-Length: 0x5\r\n", "Content-Length:\r\n", "Content-Length: 5,5\r\n", "Content-Length: 99999999999999999999\r\n", "content-length: 5\r\n",
	"Content-Length: -0\r\n", "Content-Length: 5 5\r\n", "Content-Length: 9223372036854775807\r\n",
	"Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: Chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding:\r\n", "transfer-encoding: chunked \r\n",
	"Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: close, keep-alive\r\n", "Connection: Upgrade\r\nUpgrade: x\r\n",
	"Trailer: X-T\r\n", "Trailer: Content-Length\r\n", "Trailer: Transfer-Encoding\r\n", "X: a\x00b\r\n", "X: a\rb\r\n", "X : 1\r\n", " folded\r\n", "\tfolded\r\n", ": none\r\n", "X: 1\n", "no colon\r\n",
	"\r\n", "\r\n", "\r\n", "\n", "hello", "hello", "5\r\nhello\r\n", "0\r\n\r\n", "0\r\n", "0\r\nX-T: 1\r\n\r\n", "5;ext=1\r\nhello\r\n", "00000005\r\nhello\r\n", "-5\r\nhello\r\n", "5\nhello\n", "0;" + strings.Repeat("x", 4000) + "\r\n\r\n",
	"ffffffffffffffff1\r\n", "7fffffffffffffff\r\n", "",
}

// TestDiffer: whatever an upstream sends, this transport makes of it what that of net/http does.
func TestDiffer(t *testing.T) {
	log.SetOutput(io.Discard) // net/http's transport writes there what it was not asked for
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	segments := make(chan [2]string, 1)
	up := serveRaw(t, func(_ int, c net.Conn, _ *http.Request) bool {
		of := <-segments
		send(c, of[0])
		if of[1] != "" {
			time.Sleep(300 * time.Microsecond)
			send(c, of[1])
		}
		return false
	})
	taken := 0
	for i := 0; i < testkit.Steps(400, 4000) && !t.Failed(); i++ {
		raw := rawResponse()
		cut := len(raw)
		if rand.IntN(2) == 0 {
			cut = rand.IntN(len(raw))
		}
		method := []string{http.MethodGet, http.MethodHead, http.MethodPost}[rand.IntN(3)]
		made := func(rt http.RoundTripper) string {
			segments <- [2]string{raw[:cut], raw[cut:]}
			resp, err := rt.RoundTrip(request(t.Context(), t, up.URL, method, ""))
			if err != nil {
				return "error"
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			return fmt.Sprint(resp.StatusCode, resp.Proto, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close, resp.Trailer, "|", string(body), "|", err != nil)
		}
		theirs := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 16 << 10}
		want := made(theirs)
		theirs.CloseIdleConnections()
		own := newTransport(t, up.URL, nil)
		got := made(own)
		own.CloseIdleConnections()
		if got != want {
			t.Errorf("%s %q at %d:\nnet/http %s\nh1       %s", method, raw, cut, want, got)
		}
		if want != "error" {
			taken++
		}
	}
	if taken < 10 {
		t.Errorf("%d responses were taken: too few to compare", taken)
	}
}

// rawResponse returns some of the pieces, in an order in which a response has them.
func rawResponse() string {
	var b strings.Builder
	b.WriteString(pieces[rand.IntN(4)])
	for range rand.IntN(4) {
		b.WriteString(pieces[rand.IntN(len(pieces))])
	}
	if rand.IntN(4) > 0 {
		b.WriteString("\r\n")
	}
	for range rand.IntN(4) {
		b.WriteString(pieces[rand.IntN(len(pieces))])
	}
	return b.String()
}
