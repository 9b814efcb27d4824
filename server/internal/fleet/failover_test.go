// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// TestFailoverBehindAnAddress: when an address leads to another server, and the connections
// to the old one stay, what a server has that takes no writes is not read, and both
// polls and changes go to the new one.
func TestFailoverBehindAnAddress(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "LOADING"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			a := redistest.StartAddress(t)
			part, ticks := watcher(fleet.Mark{Key: "a", Field: "v"})
			c := start(t, a.URL(), part)
			mark := func(s *redistest.Server, text string) { s.Do(t, "HSET", c.Key("a"), "v", text) }
			mark(a.Old, "old")
			mark(a.New, "new")
			next(t, ticks, func(t fleet.Tick) bool { return answered(t) && t.Values[0] == "old" })
			a.Demote(t, word)
			next(t, ticks, failed)
			a.Lead()
			tick := next(t, ticks, answered)
			if tick.Values[0] != "new" {
				t.Errorf("read %q, want what the new server has", tick.Values[0])
			}
			go func() {
				for range ticks {
				}
			}()
			testkit.Until(t, "a change", func() bool {
				list, err := c.Eval(t.Context(), set, []string{c.Key("a")}, "v", "changed")
				return err == nil && len(list) == 1
			})
			if got := a.New.Do(t, "HGET", c.Key("a"), "v"); got != "changed" {
				t.Errorf("the new server has %q", got)
			}
		})
	}
}

// TestConnectsAnewSeldom: a Conn connects anew less than twice a second, however often it polls.
func TestConnectsAnewSeldom(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	network := redistest.StartProxy(t, server.Addr)
	part, ticks := watcher(fleet.Mark{Key: "a", Field: "v"})
	start(t, "redis://"+network.Addr, part)
	next(t, ticks, answered)
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	next(t, ticks, failed)
	began := time.Now()
	taken := network.Taken()
	// One may have been made before, and be counted late.
	next(t, ticks, func(fleet.Tick) bool { return network.Taken() >= taken+3 })
	if took := time.Since(began); took < time.Second {
		t.Errorf("it has connected anew twice or three times within %v", took)
	}
	server.Do(t, "REPLICAOF", "NO", "ONE")
	next(t, ticks, answered)
}
