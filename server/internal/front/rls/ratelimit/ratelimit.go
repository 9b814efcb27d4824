// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package ratelimit reads the files of envoyproxy/ratelimit, and finds the limit of a descriptor
// as that service does. docs/adr/0080-envoy.md lists the differences.
//
// The files, in the order in which to read them:
//
//   - parse.go: files and their faults
//   - extend.go: the keys that the service does not have
//   - yaml.go: mappings and scalars of YAML 1.1
//   - match.go: the limit of a descriptor
//   - way.go: limits as conditions on descriptors
//   - path.go: the name of a descriptor's statistics
//   - ratelimit.go: Config and Limit
package ratelimit

import (
	"fmt"
	"iter"
	"time"

	"github.com/sluicegate/sluice"
)

// Owner is the key of the entry that names the owner of a slot.
const Owner = "owner"

// Config holds the limits of all domains. It is safe for concurrent use.
type Config struct {
	domains map[string]*node
}

// Limit is a limit of a file. It must not be changed.
type Limit struct {
	// Path is the domain and the keys down to the descriptor, with the values of the file, such as
	// mongo_cps.database_users.
	Path      string
	Name      string // for Replaces; may be empty
	PerUnit   uint32 // 0 denies all
	Unit      Unit   // 0 if Unlimited
	Units     uint32 // that a window has, of a limit that a request brings; 0 means 1
	Unlimited bool
	// Limits are what hits are taken from, in place of Unit and PerUnit, which are 0 then.
	Limits []sluice.Limit
	// Slots are how many owners may hold a slot at once, where the last key is [Owner]; a Cap of
	// 0: there are none. Unit and PerUnit are 0 beside them.
	Slots  sluice.SlotLimit
	Shadow bool // it never denies
	// Quota denies a request only if all limits with Quota deny it.
	Quota    bool
	Replaces []string // names of limits that do not count beside this one
	Metadata map[string]any
	File     string
	Line     int // of the descriptor, from 1
}

// Unit is a unit of time. Its values are those of the protocol.
type Unit int32

// The units.
const (
	Unknown Unit = iota
	Second
	Minute
	Hour
	Day
	Month
	Year
	Week
	units
)

var unitNames = [units]string{"unknown", "second", "minute", "hour", "day", "month", "year", "week"}

var windows = [units]time.Duration{
	Second: time.Second, Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour,
	Week: 7 * 24 * time.Hour, Month: 30 * 24 * time.Hour, Year: 365 * 24 * time.Hour,
}

// Window returns the length of the unit: a month has 30 days, and a year 365. It is 0 for
// Unknown and for numbers that are no unit.
func (u Unit) Window() time.Duration {
	if u < 0 || u >= units {
		return 0
	}
	return windows[u]
}

// Window returns the length of a limit's window, 0 if it has no Unit.
func (l *Limit) Window() time.Duration { return time.Duration(max(l.Units, 1)) * l.Unit.Window() }

// String returns the unit's word in a file.
func (u Unit) String() string {
	if u < 0 || u >= units {
		return fmt.Sprintf("Unit(%d)", int32(u))
	}
	return unitNames[u]
}

// Limits returns the limits of all domains, in no order.
func (c *Config) Limits() iter.Seq[*Limit] {
	return func(yield func(*Limit) bool) {
		for _, domain := range c.domains {
			if !domain.each(yield) {
				return
			}
		}
	}
}
