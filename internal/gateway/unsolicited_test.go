// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gateway_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/gateway"
)

// TestUnsolicitedIsLogged: an upstream that answers more than it was asked is named by the
// log, since it is at fault.
func TestUnsolicitedIsLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			if _, err = http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
			}
		}
		served <- err
	}()
	t.Cleanup(func() { _ = l.Close() })
	var log strings.Builder // nothing writes to it but the handler
	g, err := gateway.New("http://"+l.Addr().String(), gateway.Options{Sync: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if err := <-served; err != nil || w.Body.String() != "ok" {
		t.Fatalf("answered %d %q, %v", w.Code, w.Body, err)
	}
	if got := log.String(); !strings.Contains(got, "upstream: answer without a request") || !strings.Contains(got, "HTTP/1.1 200 OK") || strings.Contains(got, "poison") {
		t.Errorf("logged %q", got)
	}
}
