// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"errors"
	"strings"
	"testing"
)

// TestCauseText: a cause is one short line without a user's name.
func TestCauseText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"NOPERM User ann has no permissions to run the 'evalsha' command", "NOPERM the user has no permissions to run the 'evalsha' command"},
		{"ERR a\r\nb\x1b[1m", "ERR a  b [1m"},
		{strings.Repeat("é", 200), strings.Repeat("é", 150) + "…"},
		{"x" + strings.Repeat("é", 200), "x" + strings.Repeat("é", 149) + "…"},
	} {
		if got := causeText(errors.New(c.text)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	if got := causeText(nil); got != "" {
		t.Errorf("none: got %q", got)
	}
}
