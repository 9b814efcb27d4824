// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package bounds has the bounds of limits, plans and leases, and some defaults: the
// documentation of package sluice states these numbers, and its Validate methods enforce them.
// Within them every decision is computed exactly, in this process and in a
// script on Redis alike.
package bounds

import (
	"context"
	"time"
)

// Bounds of limits and plans.
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

// MaxCounterQuota returns the largest Quota plus Debt of a sliding counter with that many
// sub-windows. With one more sub-window, the oldest, which counts in part, and one more unit
// in each for denials, the sum is less than 2^53.
func MaxCounterQuota(subWindows int) int64 { return (1<<53-1)/int64(subWindows+1) - 1 }

// Latest is the last possible instant, in µs since 1970, in the year 2112: with the longest
// reservation after it, instants take 52 bits.
const Latest = 1<<52 - 1 - int64(time.Hour/time.Microsecond)

// Bounds of leases.
const (
	MaxLeaseTTL     = time.Minute // longest TTL of leased units
	DefaultLeaseTTL = time.Second // longest TTL that follows from the limits
)

// Bounds of holds.
const (
	MaxHoldID   = 256         // bytes of an id
	MaxHolds    = 1024        // open holds of a key under a limit, and the least number of ended holds that are kept
	LeastMemory = time.Minute // for which the id of an ended hold is kept
)

// Bounds of rules.
const (
	MaxRules      = 100_000 // of a policy
	MaxLevels     = 8       // of a rule, and candidates of a level
	MaxParts      = 8       // of a key
	MaxOverrides  = 100_000 // of a level
	MaxValueBytes = 8 << 10 // of one part's value

	DefaultLease     = 10 * time.Minute // TTL of an in-flight limit that names none
	DefaultQueue     = 10_000           // requests that are delayed at once
	ShapeTurn        = time.Minute      // how long bytes wait for their turn if their rule has no MaxWait
	LeastShaped      = 256              // bytes that a limit that shapes must grant at once at least: fewer cost more to decide than to send
	DefaultReadAhead = 64 << 20         // bytes of bodies that are kept at once

	MaxFileBytes = 32 << 20 // of a configuration file
)

// Bounds of stores, and of package remote.
const (
	DefaultMaxKeys      = 1 << 20 // keys in a memory store
	DefaultRedisTimeout = time.Second

	DefaultTimeout     = 100 * time.Millisecond // of a call, for its caller
	DefaultLateTimeout = 800 * time.Millisecond // for which an answer is awaited after the timeout
	DefaultProbe       = 500 * time.Millisecond // between attempts to reach a store that is down
	DefaultFailures    = 5                      // by which failed calls exceed the others when the store counts as down
	DefaultMaxInFlight = 1024                   // calls
	DefaultMaxOwed     = 1 << 16                // keys that owe units, and slots to be released
	DefaultNearKeys    = 1 << 16                // keys whose denials and leases are remembered
	MaxNodes           = 1 << 16                // nodes that share a limit

	MaxDenialAge = time.Second // longest time for which a denial is remembered
	Drift        = 1000        // rates of clocks differ by at most one part in this; with NTP by half of that
)

// UndoTimeout is the longest time for which units are given back after their caller has left.
const UndoTimeout = time.Second

// Undo returns a context in which to give units back. It has the values of ctx, does not end
// with it, and ends after UndoTimeout.
func Undo(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
}

// ValidName reports whether s is the name of a limit, rule or level: 1 to 64 of a-z, 0-9, '.',
// '_' and '-'.
func ValidName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}
