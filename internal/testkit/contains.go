// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"strings"
	"testing"
)

// Contains reports each of some texts that a text lacks as an error.
func Contains(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
}
