// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/spelling"
)

func TestNearest(t *testing.T) {
	words := []string{"limit", "limits", "listen", "by", "in_flight"}
	for _, c := range []struct{ name, given, want string }{
		{"a letter more", "limmit", "limit"},
		{"a letter less", "limts", "limits"},
		{"a letter changed", "lister", "listen"},
		{"two letters", "inflght", "in_flight"},
		{"the nearer of two", "limit", "limit"},
		{"too far", "colour", ""},
		{"a short word of another", "bye", "by"},
		{"longer than twice a word", "bybyb", ""},
		{"nothing", "", "by"},
		{"too long to be looked at", strings.Repeat("limit", 20), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := spelling.Nearest(c.given, slices.Values(words)); got != c.want {
				t.Errorf("%q: got %q, want %q", c.given, got, c.want)
			}
		})
	}
}
