// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/adapters/internal/watch"
)

// TestBodyEnds: after the settlement no byte is read, as it would not count.
func TestBodyEnds(t *testing.T) {
	var traffic watch.Traffic
	r := traffic.Request(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("0123456789")))
	if _, err := io.ReadFull(r.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if got := traffic.Response(http.StatusOK, true).Read; got != 4 {
		t.Errorf("read %d bytes, want 4", got)
	}
	if n, err := r.Body.Read(make([]byte, 4)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("behind the end: read %d, %v", n, err)
	}
}

// TestStatus: the status is that of the first response that is not informational.
func TestStatus(t *testing.T) {
	w := watch.Writer{ResponseWriter: httptest.NewRecorder()}
	w.Request(httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	w.WriteHeader(http.StatusEarlyHints)
	if w.Status() != 0 {
		t.Errorf("after hints: %d", w.Status())
	}
	w.WriteHeader(http.StatusUnauthorized)
	w.WriteHeader(http.StatusOK)
	if resp := w.Response(w.Status(), true); resp.Status != http.StatusUnauthorized || resp.Unseen {
		t.Errorf("got %+v, want 401", resp)
	}
	flushed := watch.Writer{ResponseWriter: httptest.NewRecorder()}
	if flushed.Flush(); flushed.Status() != http.StatusOK {
		t.Errorf("flushed: %d, want 200", flushed.Status())
	}
}

// TestHijacked: a hijacked connection keeps bytes received early, and its sending side can be
// closed.
func TestHijacked(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // nothing is left to accept
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // it has said all
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // it has said all
	early := bufio.NewReader(io.MultiReader(strings.NewReader("early"), server))
	if _, err := early.Peek(5); err != nil {
		t.Fatal(err)
	}
	var traffic watch.Traffic
	traffic.Request(httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	conn, rw, err := traffic.Hijacked(server, bufio.NewReadWriter(early, bufio.NewWriter(server)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "late"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 9)
	if _, err := io.ReadFull(rw, got); err != nil || string(got) != "earlylate" {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := rw.WriteString("answer"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rw.Flush(), conn.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Errorf("the client has read %q, %v", got, err)
	}
	if resp := traffic.Response(0, true); resp.Status != http.StatusSwitchingProtocols || resp.Read != 9 || resp.Written != 6 || resp.Unseen {
		t.Errorf("got %+v", resp)
	}
}
