// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestGarbage: malformed requests do no harm.
func TestGarbage(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {})
	r := servetest.Start(t, fmt.Sprintf("client_ip: {trusted: 127.0.0.1}\nupstream: %q\nrules: [{name: a, by: ip, limits: 100/min}]\n", up))
	host := strings.TrimPrefix(r.URL, "http://")
	for _, c := range []struct{ name, request, want string }{
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		{"header too large", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", "431"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "400"},
		{"forwarded for nonsense", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: ,,;\"\xff, " + strings.Repeat("9.9.9.9,", 5000) + "\r\n\r\n", "200"},
		{"hop that is no field", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close, \xff, Host\r\n\r\n", "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servetest.Dial(t, host, "")
			// The gateway may have closed its end before all is sent.
			_, _ = io.WriteString(conn, c.request)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+c.want) {
				t.Errorf("answer %q, %v; want %s", line, err, c.want)
			}
		})
	}
	r.Want(t, http.StatusOK, "/")
}

func TestUpstreamThatIsDown(t *testing.T) {
	t.Parallel()
	r := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, by: ip, limits: 1/min}]\n", servetest.Nobody), servetest.Stopped)
	for i, want := range []int{http.StatusBadGateway, http.StatusTooManyRequests} {
		if a := r.Get(t, "/"); a.Status != want || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("request %d: %d %s, want %d", i+1, a.Status, a.Body, want)
		}
	}
}
