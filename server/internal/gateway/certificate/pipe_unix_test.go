// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package certificate_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
)

// TestPipe: a pipe in place of a file, whose opening would block, delays neither the start
// nor a handshake.
func TestPipe(t *testing.T) {
	f := newFiles(t)
	f.put(testkit.Certificate(t, "a", time.Now().Add(time.Hour)))
	p, err := certificate.LoadOften(f.cert, f.key, certificate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{f.cert, f.key} {
		f.remove(name)
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		want := name + " is a pipe; use the path of a regular file"
		if got := serving(t, p); got != "a" || p.Err() == nil || !strings.Contains(p.Err().Error(), want) {
			t.Errorf("%q serves, fault %v; want a, %q", got, p.Err(), want)
		}
		if _, err := certificate.Load(f.cert, f.key, certificate.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}
