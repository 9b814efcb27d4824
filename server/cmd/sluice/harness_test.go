// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestMain lets the test program be sluice itself, for the tests that need a
// process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_AS_PROGRAM") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// starts runs a test with two gateways: one with the flags, and one with the file of the
// same settings.
func starts(t *testing.T, now func() time.Time, args []string, test func(t *testing.T, r *servetest.Gateway)) {
	t.Helper()
	t.Run("flags", func(t *testing.T) { test(t, startFlags(t, now, args)) })
	t.Run("file", func(t *testing.T) { test(t, startPrinted(t, now, args)) })
}

// startEither serves the flags or, in make long, the file of the same settings.
func startEither(t *testing.T, now func() time.Time, args []string) *servetest.Gateway {
	t.Helper()
	if testkit.IsLong() {
		return startPrinted(t, now, args)
	}
	return startFlags(t, now, args)
}

// startPrinted serves the file of the same settings as the flags.
func startPrinted(t *testing.T, now func() time.Time, args []string) *servetest.Gateway {
	t.Helper()
	yaml, _ := command(t, cli.OK, append([]string{"serve", "--print-config"}, onFreePorts(args)...)...)
	return servetest.Start(t, yaml, func(o *serve.Options) { o.Now = now })
}

// startFlags serves the flags.
func startFlags(t *testing.T, now func() time.Time, args []string) *servetest.Gateway {
	t.Helper()
	_, c, err := parseArgs(onFreePorts(args))
	if err != nil {
		t.Fatal(err)
	}
	return servetest.Serve(t, c, func(o *serve.Options) { o.Now = now })
}

func onFreePorts(args []string) []string {
	return append(slices.Clone(args), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
}

// command runs a command of sluice and returns what it writes.
func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, failed bytes.Buffer
	if got := run(t.Context(), args, &out, &failed); got != want {
		t.Fatalf("sluice %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, out.String(), failed.String())
	}
	return out.String(), failed.String()
}

// failsWith runs a command that must end with a code, and with a text on standard error.
func failsWith(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	_, stderr := command(t, code, args...)
	testkit.Contains(t, stderr, text)
}
