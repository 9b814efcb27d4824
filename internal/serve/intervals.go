// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"time"
)

// Intervals are how often a program does what no request asks for. Zero means the
// default of each.
type Intervals struct {
	File      time.Duration // between two looks at the configuration's file: [reload.Every]
	Store     time.Duration // between two looks at how a shared store is: 1 s
	Memory    time.Duration // between two looks whether a store in this process is full: 10 s
	Heartbeat time.Duration // between two signs of life of a node: 10 s; after [heartbeatTTL] without one it is gone
	Fleet     time.Duration // at most between two polls of what nodes share: [fleet.Every]
	Report    time.Duration // between two reports of a node to one that is looked at: 2 s
	Tick      time.Duration // of the history of requests: 1 s
}

// withDefaults returns i with defaults in the place of zeros. Those that are missing here
// are defaults of other packages.
func (i Intervals) withDefaults() Intervals {
	i.Store = cmp.Or(i.Store, time.Second)
	i.Memory = cmp.Or(i.Memory, 10*time.Second)
	i.Heartbeat = cmp.Or(i.Heartbeat, heartbeatEvery)
	return i
}
