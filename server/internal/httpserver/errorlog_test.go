// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerLog: each kind of line has one a second, independent of other kinds. Lines caused
// by clients are warnings, not errors.
func TestServerLog(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		to := ErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 100 {
			to.Printf("http: TLS handshake error from 192.0.2.%d:4711: EOF", i)
			to.Printf("http2: server connection error from 192.0.2.%d:4711: connection error: PROTOCOL_ERROR", i)
		}
		time.Sleep(time.Second)
		to.Print("http: TLS handshake error from 192.0.2.200:4711: EOF")
		to.Print("http: panic serving 192.0.2.1:4711: x")
		to.Print("http2: panic serving 192.0.2.2:4711: y")
		to.Print("http: Accept error: accept tcp: too many open files; retrying in 5ms")
		time.Sleep(1500 * time.Millisecond)
		for i := range 1000 {
			to.Printf("line %d that is not known", i)
		}
		time.Sleep(time.Minute) // lines left out are written meanwhile
		synctest.Wait()
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range [][]string{
		{"level=WARN", `msg="TLS handshake"`, "192.0.2.0:4711: EOF", "unreported=0"},
		{"level=WARN", `msg="http2: server connection error"`, "192.0.2.0:4711: connection error", "unreported=0"},
		{"level=WARN", "192.0.2.200:4711: EOF", "unreported=99"},
		{"level=ERROR", `msg="panic serving"`, "192.0.2.1:4711: x"},
		{"level=ERROR", "msg=accept", "too many open files"},
		{"level=WARN", "192.0.2.99:4711: connection error", "unreported=98"},
		{"level=ERROR", "msg=server", "line 0 that", "unreported=0"},
		{"level=ERROR", `msg="panic serving"`, "192.0.2.2:4711: y", "unreported=0"},
		{"level=ERROR", "line 999 that", "unreported=998"},
	} {
		for _, text := range want {
			if i >= len(lines) || !strings.Contains(lines[i], text) {
				t.Errorf("line %d: want %q in %q", i+1, text, lines)
			}
		}
	}
	if len(lines) != 9 {
		t.Errorf("got %d lines, want 9", len(lines))
	}
}
