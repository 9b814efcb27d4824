// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
)

// TestMain runs the test's program as the empty server if it is started so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-empty" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRun: a short run measures all servers but the reference, which takes a minute to build.
func TestRun(t *testing.T) {
	redistest.Redis(t) // or fails
	t.Chdir("../..")
	var out strings.Builder
	for length := 100 * time.Millisecond; ; length *= 4 {
		out.Reset()
		if err := run(t.Context(), []string{"-rounds", "1", "-length", length.String(), "-reference", "none"}, &out); err != nil {
			t.Fatal(err)
		}
		// On a busy machine a server may use less CPU than is counted.
		if !strings.Contains(out.String(), "CPU +Inf") && !strings.Contains(out.String(), "CPU NaN") || length > 10*time.Second {
			break
		}
	}
	for _, want := range []string{
		`empty grpc-go +\d+ requests/s +CPU +[\d.]+ µs, .* p50 \S+ ms, p99 \S+ ms \(least \S+\)\n`,
		`sluice in memory +\d+ requests/s`, `of empty grpc-go: rate [\d.]+, CPU [\d.]+\n`,
		`sluice on Redis +\d+ requests/s`, `each request of 10 descriptors:.* evalsha 1\.0`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("printed\n%swithout %s", &out, want)
		}
	}
}
