// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"runtime/debug"
	"slices"
	"testing"
)

// Long skips a test unless make long runs it. The test takes many seconds, and a shorter
// test covers its subject in make check.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong() {
		t.Skip("make long runs it")
	}
}

// Steps returns the number of steps of a test: check in make check, where most packages run
// with the race detector, and long in make long.
func Steps(check, long int) int {
	if IsLong() {
		return long
	}
	return check
}

// IsLong reports whether make long runs the test.
func IsLong() bool { return os.Getenv("SLUICE_LONG") != "" }

// Race reports whether the race detector is built in.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
