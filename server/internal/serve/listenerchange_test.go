// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// listeningAt returns a configuration with the given listeners.
func listeningAt(upstream, listen string) string {
	return fmt.Sprintf("listen: [%s]\nupstream: %q\nrules: [{name: all, by: ip, limits: 100/min}]\n", listen, upstream)
}

// TestSwitchedConnectionsLeave: a websocket at a removed address lives for the drain time, and
// one at another address has no bound.
func TestSwitchedConnectionsLeave(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, echo(t))
	s := servetest.Start(t, listeningAt(up, `"127.0.0.1:0", "127.0.0.2:0"`), func(o *serve.Options) { o.Drain = 100 * time.Millisecond })
	stays, staying := upgraded(t, s)
	testkit.Closed(t, stays)
	leaves, leaving := upgraded(t, &servetest.Gateway{URL: s.URLs[1]})
	testkit.Closed(t, leaves)
	s.Change(t, listeningAt(up, `"127.0.0.1:0"`), "active since")
	if rest, err := io.ReadAll(leaving); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("at the address that is taken out: %q, %v", rest, err)
	}
	testkit.Until(t, "the log to say so", func() bool { return strings.Contains(s.Logs.String(), "are cut off") })
	for _, word := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(stays, word); err != nil {
			t.Fatal(err)
		}
		if got, err := staying.ReadString('\n'); err != nil || got != word {
			t.Errorf("at the other: read %q, %v; want %q", got, err, word)
		}
	}
}

// TestSwitchedConnectionGoesOn: a switched connection is not cut off within the drain time.
func TestSwitchedConnectionGoesOn(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, echo(t))
	s := servetest.Start(t, listeningAt(up, `"127.0.0.1:0", "127.0.0.2:0"`), func(o *serve.Options) { o.Drain = time.Minute })
	conn, r := upgraded(t, &servetest.Gateway{URL: s.URLs[1]})
	testkit.Closed(t, conn)
	s.Change(t, listeningAt(up, `"127.0.0.1:0"`), "active since")
	testkit.Until(t, "the address to be closed", func() bool { return strings.Contains(s.Logs.String(), "an address is closed") })
	if _, err := io.WriteString(conn, "last\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || got != "last\n" {
		t.Errorf("read %q, %v", got, err)
	}
	s.End(t)
	if strings.Contains(s.Logs.String(), "cut off") {
		t.Errorf("logged %s", s.Logs)
	}
}
