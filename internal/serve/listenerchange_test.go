// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listeningAt returns a configuration that listens at some addresses.
func listeningAt(upstream, listen string) string {
	return fmt.Sprintf("listen: [%s]\nupstream: %q\nrules: [{name: all, by: ip, limits: 100/min}]\n", listen, upstream)
}

// TestSwitchedConnectionsLeave: a websocket at an address that is taken out
// lives on for the drain time, and one at another address for ever.
func TestSwitchedConnectionsLeave(t *testing.T) {
	up := backend(t, echo(t))
	s := start(t, listeningAt(up, `"127.0.0.1:0", "127.0.0.2:0"`), func(o *Options) { o.Drain = 100 * time.Millisecond })
	stays, staying := upgraded(t, s)
	closeAtEnd(t, stays)
	leaves, leaving := upgraded(t, &running{url: s.urls[1]})
	closeAtEnd(t, leaves)
	s.change(t, listeningAt(up, `"127.0.0.1:0"`), "active since")
	if rest, err := io.ReadAll(leaving); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("at the address that is taken out: %q, %v", rest, err)
	}
	until(t, "the log to say so", func() bool { return strings.Contains(s.logs.String(), "are cut off") })
	for _, word := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(stays, word); err != nil {
			t.Fatal(err)
		}
		if got, err := staying.ReadString('\n'); err != nil || got != word {
			t.Errorf("at the other: read %q, %v; want %q", got, err, word)
		}
	}
}

// TestSwitchedConnectionGoesOn: within the drain time it is not cut off.
func TestSwitchedConnectionGoesOn(t *testing.T) {
	up := backend(t, echo(t))
	s := start(t, listeningAt(up, `"127.0.0.1:0", "127.0.0.2:0"`), func(o *Options) { o.Drain = time.Minute })
	conn, r := upgraded(t, &running{url: s.urls[1]})
	closeAtEnd(t, conn)
	s.change(t, listeningAt(up, `"127.0.0.1:0"`), "active since")
	until(t, "the address to be closed", func() bool { return strings.Contains(s.logs.String(), "an address is closed") })
	if _, err := io.WriteString(conn, "last\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || got != "last\n" {
		t.Errorf("read %q, %v", got, err)
	}
	s.end(t)
	if strings.Contains(s.logs.String(), "cut off") {
		t.Errorf("logged %s", s.logs)
	}
}
