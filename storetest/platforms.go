// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"

	"github.com/sluicegate/sluice/profile"
)

// testPlatforms plays what platforms document of their own limits.
func testPlatforms(t *testing.T, b *bench) {
	for _, p := range profile.All() {
		for _, v := range p.Vectors {
			h, clock := b.settable(t)
			if err := v.Play(t.Context(), h.Store, clock.Set); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
}
