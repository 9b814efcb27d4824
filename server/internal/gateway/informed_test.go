// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestResetWhileInformed: when a client resets its HTTP/2 stream during an informational
// response, the server does not read fields that are being changed. The race detector would
// report it.
func TestResetWhileInformed(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", strings.Repeat("x", 8<<10)) // more than is buffered
		w.WriteHeader(http.StatusEarlyHints)
	}))
	t.Cleanup(up.Close)
	g, err := gateway.New(up.URL, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)

	handled := make(chan struct{})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(handled)
		g.ServeHTTP(w, r)
	})}
	l := testkit.NewPipes()
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	client := l.Connect("192.0.2.1")
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})

	const headers, rstStream, settings, windowUpdate, ack = 1, 3, 4, 8, 1
	acknowledged := make(chan struct{})
	go func() { // reads no more, so that the response's fields are not written completely
		defer close(acknowledged)
		acked, updated := false, false
		for head := make([]byte, 9); !acked || !updated; {
			if _, err := io.ReadFull(client, head); err != nil {
				t.Error(err)
				return
			}
			if _, err := io.CopyN(io.Discard, client, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
				t.Error(err)
				return
			}
			acked = acked || head[3] == settings && head[4] == ack
			updated = updated || head[3] == windowUpdate
		}
	}()
	frame := func(kind, flags, stream byte, payload string) {
		head := []byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, stream}
		if _, err := client.Write(append(head, payload...)); err != nil {
			t.Error(err)
		}
	}
	if _, err := io.WriteString(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Error(err)
	}
	frame(settings, 0, 0, "")
	frame(headers, 5, 1, "\x82\x86\x84\x41\x01x") // GET http://x/, whole
	<-acknowledged
	for !stands("http2writeResHeaders", "(*pipe).write") && t.Context().Err() == nil {
	}
	frame(rstStream, 0, 1, "\x00\x00\x00\x08")
	<-handled
}

// stands reports whether a goroutine is in all of these functions. It creates no ordering
// between goroutines.
func stands(in ...string) bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if !slices.ContainsFunc(in, func(name string) bool { return !strings.Contains(stack, name) }) {
			return true
		}
	}
	return false
}
