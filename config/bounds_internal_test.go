// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
)

// TestBounds: the copies of bounds and sources equal those in the packages that enforce them.
func TestBounds(t *testing.T) {
	for name, pair := range map[string][2]any{
		"hops":    {maxHops, clientip.MostHops},
		"lease":   {maxLeaseTTL, bounds.MaxLeaseTTL},
		"levels":  {maxLevels, bounds.MaxLevels},
		"nodes":   {maxNodes, bounds.MaxNodes},
		"rules":   {maxRules, bounds.MaxRules},
		"slots":   {maxSlots, bounds.MaxSlots},
		"queue":   {defaultQueue, bounds.DefaultQueue},
		"file":    {document.MaxBytes, bounds.MaxFileBytes},
		"sources": {[4]string{sourceIP, sourceClaim, sourceCertificate, sourceFirst}, [4]string{source.IP, source.Claim, source.Certificate, source.First}},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v here, %v where it is enforced", name, pair[0], pair[1])
		}
	}
}
