// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Bounds of a file. A test compares those that other packages enforce, too.
const (
	maxHops     = 16          // of client_ip
	maxLeaseTTL = time.Minute // of leased units
	maxLevels   = 8           // of a rule, and candidates of a level
	maxNodes    = 1 << 16     // among which a limit is shared
	maxRules    = 100_000
	maxSlots    = 1 << 16 // the largest cap of requests in flight

	defaultQueue = 10_000 // requests delayed at once
)

// Values of policy.Part.Source.
const (
	sourceIP          = "ip"
	sourceClaim       = "claim"
	sourceCertificate = "cert"
	sourceFirst       = "first"
)
