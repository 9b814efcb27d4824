// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestNotifySystemd: systemd learns that the program is ready once clients are answered, and
// that it stops as soon as it does.
func TestNotifySystemd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }() // an error means that it was closed
	reported := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(testkit.Ceiling)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1000)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", name)
	r := servetest.Start(t, "upstream: http://127.0.0.1:9\nrules: [{name: api, by: ip, limits: 1/s}]\n")
	if got, want := reported(), "READY=1\nSTATUS=configuration "+r.Hash(t); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := servetest.Ready(t, r); got.Status != http.StatusOK {
		t.Errorf("reported to be ready, and is not: %d", got.Status)
	}
	r.Stop()
	if got := reported(); got != "STOPPING=1" {
		t.Errorf("got %q", got)
	}
}

// TestNotifySystemdGone: a socket that does not answer is logged, and stops nothing.
func TestNotifySystemdGone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	r := servetest.Start(t, "upstream: http://127.0.0.1:9\nrules: [{name: api, by: ip, limits: 1/s}]\n")
	testkit.Until(t, "a warning", func() bool { return strings.Contains(r.Logs.String(), "systemd was not notified") })
}
