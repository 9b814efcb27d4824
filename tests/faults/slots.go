// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
)

// slotMoves moves every slot that holds a key to another master, as an operator
// does it for a larger Cluster.
func slotMoves(t *testing.T) *stage {
	c := redistest.StartCluster(t, redistest.Redis(t), 3, false)
	ids := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		ids[i] = m.Do(t, "CLUSTER", "MYID")
	}
	moved := make(map[string]bool)
	g := &stage{url: clusterURL(c), servers: c.Masters, heal: func() {}}
	g.strike = func([]*rig) sluice.Instant {
		for from := range c.Masters {
			to := (from + 1) % len(c.Masters)
			for _, key := range c.Masters[from].List(t, "KEYS", "*") {
				slot := c.Masters[from].Do(t, "CLUSTER", "KEYSLOT", key)
				if moved[slot] {
					continue
				}
				moved[slot] = true
				c.Masters[to].Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
				c.Masters[from].Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
				move(t, c.Masters[from], c.Masters[to], slot)
				for i := range c.Masters {
					c.Masters[i].Do(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
				}
			}
		}
		if len(moved) == 0 {
			t.Error("no slot was moved")
		}
		clear(moved)
		return nothing
	}
	return g
}

// move moves the keys of a slot until it is empty.
func move(t *testing.T, from, to *redistest.Server, slot string) {
	t.Helper()
	host, port, _ := strings.Cut(to.Addr, ":")
	for range 100 {
		keys := from.List(t, "CLUSTER", "GETKEYSINSLOT", slot, "100")
		if len(keys) == 0 {
			return
		}
		from.Do(t, append([]string{"MIGRATE", host, port, "", "0", "60000", "KEYS"}, keys...)...)
	}
	t.Fatalf("slot %s does not get empty", slot)
}
