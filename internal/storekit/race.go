// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"runtime/debug"
	"slices"
	"testing"
)

// Race reports whether the race detector is built in.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// SkipRace skips a long test in which nothing runs at the same time, or which
// measures memory, if the race detector is built in: it finds nothing there and
// takes ten times as long. make test runs these without it, too.
func SkipRace(t testing.TB) {
	t.Helper()
	if Race() {
		t.Skip("nothing runs at the same time; run it without the race detector")
	}
}
