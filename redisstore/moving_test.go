// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestSlotMovesToAnotherNode: a plan of two limits is charged once for each take while the
// slot of its keys moves from one node to another, also while one key is on each node.
func TestSlotMovesToAnotherNode(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Redis(t), 3, false)
	s := open(t, c, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "1000/day", "1000/day sliding-log")
	take := func() sluice.Decision {
		t.Helper()
		d, err := l.Take(t.Context(), "k", 1)
		if err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v, want allowed", d, err)
		}
		return d
	}
	take()

	var from, to *redistest.Server
	var list []string
	for _, m := range c.Masters {
		if k := redistest.Keys(t, m.Client(t)); len(k) > 0 {
			from, list = m, k
		} else {
			to = m
		}
	}
	if len(list) != 2 {
		t.Fatalf("got keys %q, want the two limits' in one slot", list)
	}
	source, target := from.Client(t), to.Client(t)
	slot := redistest.Number(t, source, "CLUSTER", "KEYSLOT", list[0])
	number := strconv.FormatInt(slot, 10)
	sourceID, targetID := redistest.Do(t, source, "CLUSTER", "MYID"), redistest.Do(t, target, "CLUSTER", "MYID")
	move := func(key string) {
		redistest.Do(t, source, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), key, "0", "60000")
	}
	redistest.Do(t, target, "CLUSTER", "SETSLOT", number, "IMPORTING", sourceID)
	redistest.Do(t, source, "CLUSTER", "SETSLOT", number, "MIGRATING", targetID)
	take() // all keys are here still
	move(list[0])

	decided := make(chan struct{})
	wait := clienttest.Line(1, func(int) {
		defer close(decided)
		if d, err := l.Take(t.Context(), "k", 1); err != nil || !d.Allowed {
			t.Errorf("between nodes: got %+v, %v, want allowed", d, err)
		}
	})
	for refused := false; !refused; { // until the server answers TRYAGAIN
		select {
		case <-decided:
			t.Fatal("decided while its keys were on two nodes")
		default:
		}
		for _, client := range []*redistest.Client{source, target} {
			info := redistest.Do(t, client, "INFO", "errorstats")
			refused = refused || strings.Contains(info, "errorstat_TRYAGAIN")
		}
	}
	move(list[1])
	wait()
	take() // by ASK
	for _, client := range []*redistest.Client{target, source} {
		redistest.Do(t, client, "CLUSTER", "SETSLOT", number, "NODE", targetID)
	}
	if got := take().Remaining; got != 1000-5 {
		t.Errorf("got %d remaining, want 995", got)
	}
}
