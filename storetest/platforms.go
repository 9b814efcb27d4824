// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"

	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
)

// play plays a vector on a new store.
func play(t *testing.T, b *bench, name string, v vector.Vector) {
	t.Helper()
	h, clock := b.settable(t)
	store := h.Store
	if v.InFlight > 0 {
		if h.Slots == nil {
			return
		}
		store = h.Slots
	}
	if err := v.Play(t.Context(), store, clock.Set); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// testPlatforms plays the documented examples of platforms.
func testPlatforms(t *testing.T, b *bench) {
	for _, p := range profile.All() {
		for _, v := range vector.Of(p.Name) {
			play(t, b, p.Name, v)
		}
	}
}
