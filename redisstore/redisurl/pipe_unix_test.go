// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisurl_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/redisstore/redisurl"
)

// TestPipe: a pipe in the place of a file, whose opening waits for somebody to
// write, is told and not waited for.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"redis://h?password_file=", "rediss://h?ca_file="} {
		target, err := redisurl.Parse(line+pipe, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target.Option(); err == nil || !strings.Contains(err.Error(), "_file: "+pipe+" is a pipe") {
			t.Errorf("%s: got %v; want it to say that it is a pipe", line, err)
		}
	}
}
