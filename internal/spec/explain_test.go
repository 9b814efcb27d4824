// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"bytes"
	"testing"

	"github.com/sluicegate/sluice/internal/spec"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestExplainInMemory: whatever the history of the keys is, an explanation is the next
// decision and does not change the snapshot.
func TestExplainInMemory(t *testing.T) {
	steps := testkit.Steps(100_000, 300_000)
	var all []*spec.Explained
	spec.Random(t, func(t testing.TB) spec.Store {
		store := newInMemory(1 << 14)
		s := &spec.Explained{Store: store, T: t, State: func() string {
			var b bytes.Buffer
			if err := store.Snapshot(&b); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}}
		all = append(all, s)
		return s
	}, steps, 11)
	count := 0
	for _, s := range all {
		count += s.Count
	}
	if count < steps/4 {
		t.Fatalf("%d explanations of %d steps", count, steps)
	}
	t.Logf("%d explanations", count)
}
