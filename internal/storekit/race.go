// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"runtime/debug"
	"slices"
	"testing"
)

// Tests that call SkipRace or FewerRace are run without the race detector, too, by
// make test, which finds the calls.

// Race reports whether the race detector is built in.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// SkipRace skips a long test in which nothing runs at the same time, or which
// measures memory, if the race detector is built in: it finds nothing there and
// takes ten times as long.
func SkipRace(t testing.TB) {
	t.Helper()
	if Race() {
		t.Skip("nothing runs at the same time; run it without the race detector")
	}
}

// FewerRace returns how many steps a long test takes whose races show in fewer: n, or a
// quarter of them if the race detector is built in.
func FewerRace(n int) int {
	if Race() {
		return n / 4
	}
	return n
}
