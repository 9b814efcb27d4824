// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

// TestNameOf: a limit of an unknown form counts as one of a later release, which no change
// overwrites. Other faults do not.
func TestNameOf(t *testing.T) {
	const good = `{"rule": "api", "key": ["ada"], "limits": ["5/min"], "reason": "r", "author": "a", "added": "2026-01-01T00:00:00Z"}`
	if name, err := nameOf([]byte(good)); err != nil || name == "" {
		t.Errorf("got %q, %v", name, err)
	}
	for _, c := range []struct {
		name, old, with string
		later           bool
	}{
		{"limit of an unknown form", "5/min", "5/fortnight", true},
		{"no rule, and such a limit", `"api", "key": ["ada"], "limits": ["5/min"]`, `"", "key": ["ada"], "limits": ["5/fortnight"]`, false},
		{"no limits", `["5/min"]`, `[]`, false},
		{"no author", `"a"`, `""`, false},
		{"no JSON", `{`, ``, false},
	} {
		_, err := nameOf([]byte(strings.Replace(good, c.old, c.with, 1)))
		if err == nil || errors.Is(err, fleet.ErrLater) != c.later {
			t.Errorf("%s: got %v, want one of a later release: %t", c.name, err, c.later)
		}
	}
}
