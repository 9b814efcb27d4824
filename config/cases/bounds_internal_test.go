// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/sluicegate/sluice/internal/bounds"
)

// TestBounds: the copy of a bound equals the bound in the package that enforces it.
func TestBounds(t *testing.T) {
	if maxRefill != bounds.MaxRefill {
		t.Errorf("%v here, %v where it is enforced", maxRefill, bounds.MaxRefill)
	}
}
