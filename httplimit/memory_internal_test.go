// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// The values of one response do not change when others write or append.
func TestMemoryIsNotShared(t *testing.T) {
	var m memory
	var texts, want []string
	var values [][]string
	for i := range 200 {
		b := bytes.Repeat([]byte{byte('a' + i%26)}, i*7%1500)
		texts, want = append(texts, m.string(b)), append(want, string(b))
		clear(b)
		some := m.strings(i * 5 % 70)
		for j := range some {
			if some[j] != "" {
				t.Fatalf("slice %d: has %q already", i, some[j])
			}
			some[j] = want[i]
		}
		values = append(values, some)
		if more := append(some, "x"); len(some) > 0 && &more[0] == &some[0] { //nolint:gocritic // to see whether it writes beyond the end
			t.Fatalf("slice %d has room behind its end", i)
		}
	}
	if !slices.Equal(texts, want) {
		t.Error("a text has changed")
	}
	for i := range values {
		if strings.Join(values[i], "") != strings.Repeat(want[i], len(values[i])) {
			t.Errorf("slice %d has changed", i)
		}
	}
}
