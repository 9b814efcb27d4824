// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"time"
)

// Intervals holds the intervals of background work, and the longest time of a call of the
// store. Zero means each field's default.
type Intervals struct {
	File      time.Duration // between two reads of the configuration's file: [reload.Every]
	Store     time.Duration // between two checks of a shared store: 1 s
	Memory    time.Duration // between two checks whether a store in this process is full: 10 s
	Heartbeat time.Duration // between two heartbeats of a node: 10 s; a node is gone after 30 s without one
	Fleet     time.Duration // between two polls of the fleet's records, at most: [fleet.Every]
	Report    time.Duration // between two reports of a node while a page shows it: 2 s
	Tick      time.Duration // between two steps of the history of requests: 1 s
	Call      time.Duration // the longest time of a call of a shared store: that of its URL
}

// withDefaults replaces zeros of i by defaults. Fields missing here have defaults in other
// packages.
func (i Intervals) withDefaults() Intervals {
	i.Memory = cmp.Or(i.Memory, 10*time.Second)
	return i
}
