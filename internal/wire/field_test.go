// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

func TestSetField(t *testing.T) {
	h := http.Header{"X-Left": {"1"}, "x-left": {"2"}, "X-LEFT": {"3", "4"}, "X-Lefts": {"5"}}
	SetField(h, "x-Left", []string{"6"})
	if want := (http.Header{"x-Left": {"6"}, "X-Lefts": {"5"}}); !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("got %v, want %v", h, want)
	}
}
