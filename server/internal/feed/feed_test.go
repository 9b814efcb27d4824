// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package feed_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/feed"
)

// serve serves a feed in memory and returns a client.
func serve(t *testing.T, f *feed.Feed) *http.Client {
	t.Helper()
	l := testkit.NewPipes()
	s := &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.Serve(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})} // its timeouts must not end a feed
	go func() { _ = s.Serve(l) }() // until it is closed
	t.Cleanup(func() {
		f.Close()
		_ = s.Close() // connections may be closed already
	})
	return &http.Client{Transport: &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}}
}

// page is a reader.
type page struct {
	status int
	lines  *bufio.Reader
	leave  context.CancelFunc
}

func open(t *testing.T, from *http.Client) *page {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := from.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close() // the server may have left
	})
	return &page{resp.StatusCode, bufio.NewReader(resp.Body), cancel}
}

// next returns the next line that is not empty, or "" at the end.
func (p *page) next(t *testing.T) string {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
		if errors.Is(err, io.EOF) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFeed: all pages get the events, past the timeouts of the server; their number is
// bounded, and a page that leaves frees its place; Restart ends the open ones, and Close all.
func TestFeed(t *testing.T) { synctest.Test(t, testFeed) }

func testFeed(t *testing.T) {
	f := feed.New(2)
	from := serve(t, f)
	first, second := open(t, from), open(t, from)
	for _, p := range []*page{first, second} {
		if got := p.next(t); got != "retry: 2000" {
			t.Errorf("got %q", got)
		}
	}
	if third := open(t, from); third.status != http.StatusServiceUnavailable || !strings.Contains(third.next(t), "too many pages are open") {
		t.Errorf("a third page: %d", third.status)
	}
	for range 3 {
		time.Sleep(time.Hour) // longer than the timeouts
		f.Send([]byte("data: one\n\n"))
		for _, p := range []*page{first, second} {
			if got := p.next(t); got != "data: one" {
				t.Errorf("got %q", got)
			}
		}
	}
	first.leave()
	synctest.Wait()
	third := open(t, from)
	if got := third.next(t); third.status != http.StatusOK || got != "retry: 2000" {
		t.Errorf("a page in its place: %d %q", third.status, got)
	}
	f.Restart()
	if a, b := second.next(t), third.next(t); a != "" || b != "" || f.Readers() != 0 {
		t.Errorf("after a restart: %q, %q, %d readers", a, b, f.Readers())
	}
	last := open(t, from)
	last.next(t)
	f.Close()
	if got := last.next(t); got != "" {
		t.Errorf("after the end: %q", got)
	}
	if late := open(t, from); late.status != http.StatusServiceUnavailable {
		t.Errorf("a page after the end: %d", late.status)
	}
}

// TestSlowReader: a page that does not read is dropped, and others get everything meanwhile.
func TestSlowReader(t *testing.T) { synctest.Test(t, testSlowReader) }

func testSlowReader(t *testing.T) {
	f := feed.New(2)
	from := serve(t, f)
	slow, quick := open(t, from), open(t, from)
	slow.next(t)
	quick.next(t)
	event := append(append([]byte("data: "), bytes.Repeat([]byte("x"), 4<<20)...), "\n\n"...)
	for n := 0; f.Readers() == 2; n++ {
		if n == 100 {
			t.Fatal("it is not dropped")
		}
		f.Send(event)
		if got := quick.next(t); len(got) != len(event)-2 {
			t.Fatalf("got %d bytes of %d", len(got), len(event)-2)
		}
	}
	if f.Readers() != 1 {
		t.Errorf("%d readers are left", f.Readers())
	}
}
