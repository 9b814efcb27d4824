// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package bounds is what limits, plans and leases may hold at most, and some defaults:
// numbers that the documentation of package sluice states and its Validate methods
// enforce. Within them every decision is computed exactly, in this process and in a
// script on Redis alike.
package bounds

import "time"

// Of limits and plans.
const (
	MaxRefill    = 2 * 366 * 24 * time.Hour // longest time in which a bucket's Burst plus Debt plus Credit may refill
	MaxLogQuota  = 1 << 16                  // units: largest Quota plus Debt of a sliding log
	MaxSubWindow = 1024                     // most sub-windows of a sliding counter
	MaxWarmUp    = time.Hour                // longest WarmUp of a token bucket
	MaxSlots     = 1 << 16                  // largest Cap of a SlotLimit
	MaxLimits    = 16                       // most limits in a Plan
	MaxForms     = 4                        // most forms of state that a key keeps under one limit name

	MaxScopeBytes = 256  // longest scope
	MaxTextBytes  = 1024 // longest text of a limit

	DefaultPrecision = 27 // of a sliding histogram that names none
)

// Of leases.
const (
	MaxLeaseTTL     = time.Minute // longest TTL of leased units
	DefaultLeaseTTL = time.Second // longest TTL that follows from the limits
)
