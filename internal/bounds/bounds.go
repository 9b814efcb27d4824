// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package bounds is what limits, plans and leases may hold at most, and some defaults:
// numbers that the documentation of package sluice states and its Validate methods
// enforce. Within them every decision is computed exactly, in this process and in a
// script on Redis alike.
package bounds

import (
	"context"
	"time"
)

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

// MaxCounterQuota returns the largest Quota plus Debt of a sliding counter of so many
// sub-windows. With one sub-window more, whose oldest units count in part, and a unit more in
// each for denials, they sum up to less than 2^53.
func MaxCounterQuota(subWindows int) int64 { return (1<<53-1)/int64(subWindows+1) - 1 }

// Latest is the last instant that there is, in µs since 1970, in the year 2112: with what is
// reserved for later, instants take 52 bits.
const Latest = 1<<52 - 1 - int64(time.Hour/time.Microsecond)

// Of leases.
const (
	MaxLeaseTTL     = time.Minute // longest TTL of leased units
	DefaultLeaseTTL = time.Second // longest TTL that follows from the limits
)

// Of holds.
const (
	MaxHoldID   = 256         // bytes of an id
	MaxHolds    = 1024        // open holds of a key under a limit, and those over that are kept at least
	LeastMemory = time.Minute // for which the id of a hold that is over is kept
)

// Of rules.
const (
	MaxRules      = 100_000 // of a policy
	MaxLevels     = 8       // of a rule, and candidates of a level
	MaxParts      = 8       // of a key
	MaxOverrides  = 100_000 // of a level
	MaxValueBytes = 8 << 10 // of one part's value

	DefaultLease     = 10 * time.Minute // TTL of an in-flight limit that names none
	DefaultQueue     = 10_000           // requests that are delayed at once
	ShapeTurn        = time.Minute      // how long bytes wait for their turn if their rule has no MaxWait
	LeastShaped      = 256              // bytes that a limit that shapes must grant at once at least: of fewer, each costs more to decide than to send
	DefaultReadAhead = 64 << 20         // bytes of bodies that are kept at once

	MaxFileBytes = 32 << 20 // of a configuration file
)

// Of stores, and of what is put around one that is far away.
const (
	DefaultMaxKeys      = 1 << 20 // that one in memory holds
	DefaultRedisTimeout = time.Second

	DefaultTimeout     = 100 * time.Millisecond // of a call, as its caller sees it
	DefaultLateTimeout = 800 * time.Millisecond // for which an answer is awaited after that
	DefaultProbe       = 500 * time.Millisecond // between attempts to reach a store that is down
	DefaultFailures    = 5                      // in a row, after which it is taken to be down
	DefaultMaxInFlight = 1024                   // calls
	DefaultMaxOwed     = 1 << 16                // slots that are still to be released
	DefaultNearKeys    = 1 << 16                // whose denials and leases are remembered
	MaxNodes           = 1 << 16                // that a limit is shared among

	MaxDenialAge = time.Second // for which a denial is remembered at most
	Drift        = 1000        // clocks differ in rate by one part in this at most; those kept by NTP by half of that
)

// UndoTimeout is how long units are given back once no caller waits.
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
