// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

// TestSplit: whatever keys are reset, nodes can share each entry, and together the entries
// name all keys that fit into one.
func TestSplit(t *testing.T) {
	node := fleet.Node{ID: "A", Name: "host"}
	for _, length := range []int{1, 100, 1200, 8 << 10} {
		type key struct{ Rule, IP string }
		var keys []key
		for range 20 {
			keys = append(keys, key{Rule: "api", IP: strings.Repeat("k", length)})
		}
		named, shortened := 0, 0
		e := Entry{Action: "reset", Author: "ops", Reason: strings.Repeat("<", longError), Error: strings.Repeat("é", 20<<10), Time: time.Now()}
		if length > 1 {
			e.Error = ""
		}
		for _, part := range Split(node, e, keys) {
			text, short := shortText(node, part)
			if len(text) > MaxEntry {
				t.Errorf("%d: an entry of %d bytes", length, len(text))
			}
			if short {
				shortened++
				continue
			}
			named += len(part.Detail["keys"].([]key))
		}
		if fits := length == 100 || length == 1200; fits != (named == len(keys)) || fits != (shortened == 0) {
			t.Errorf("%d: %d keys are named, %d entries are shortened", length, named, shortened)
		}
	}
}
