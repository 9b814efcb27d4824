// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/rulekit"
	"github.com/sluicegate/sluice/internal/spec"
	"github.com/sluicegate/sluice/internal/testkit"
)

// dump is a script that returns a hash of every byte that a server keeps.
const dump = `local all = redis.call('KEYS', '*')
table.sort(all)
for i, key in ipairs(all) do
	all[i] = #key .. ' ' .. key .. redis.call('DUMP', key)
end
return redis.sha1hex(table.concat(all))`

// kept returns the content of a server, the number of its changes, and what this process knows
// about its limits.
func (s *Store) kept(t testing.TB, client *redistest.Client) string {
	t.Helper()
	sum := redistest.Do(t, client, "EVAL", dump, "0")
	info := redistest.Do(t, client, "INFO", "persistence")
	_, changes, _ := strings.Cut(info, "rdb_changes_since_last_save:")
	changes, _, _ = strings.Cut(changes, "\r")
	s.series.mu.Lock()
	defer s.series.mu.Unlock()
	var series []string
	for id, r := range s.series.known {
		series = append(series, fmt.Sprint(id, r.first, r.metOthers.Load(), r.met.Load(), r.start.Load(), r.renewed.Load()))
	}
	slices.Sort(series)
	return sum + ", " + changes + " changes\n" + strings.Join(series, "\n")
}

// TestExplainEqualsDecisions: whatever the history of the keys is, an explanation is the next
// decision of the scripts and changes no byte on the server.
func TestExplainEqualsDecisions(t *testing.T) {
	steps := testkit.Steps(800, 8_000)
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := redistest.Shared(t, b)
			client := server.Client(t)
			count := 0
			var all []*spec.Explained
			spec.Random(t, func(t testing.TB) spec.Store {
				store := clocked(t, server, fmt.Sprint("explained", len(all)))
				s := &spec.Explained{Store: store, T: t, State: func() string { return store.kept(t, client) }}
				all = append(all, s)
				return s
			}, steps, 12)
			for _, s := range all {
				count += s.Count
			}
			if count < steps/3 {
				t.Fatalf("%d explanations of %d steps", count, steps)
			}
			t.Logf("%d explanations", count)
		})
	}
}

// TestExplainRules is TestExplainEqualsDecisions for changed rules.
func TestExplainRules(t *testing.T) {
	requests := testkit.Steps(600, 10_000)
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	rulekit.Explain(t, func() rulekit.Store {
		redistest.Do(t, client, "FLUSHALL")
		var micros atomic.Int64
		s := bare(client)
		s.inject = micros.Load
		return rulekit.Store{Store: s, Set: func(to time.Time) { micros.Store(to.UnixMicro()) }, State: func() string { return s.kept(t, client) }}
	}, requests, 2)
}

// TestExplainSlotEqualsDecisions: the explanation of a slot is the result of an acquisition,
// also where leases have ended, and it renews and drops nothing.
func TestExplainSlotEqualsDecisions(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := clocked(t, server, "slots")
	client := server.Client(t)
	now := int64(1_790_000_000_000_000)
	for i := range 300 {
		now += int64(i%7) * 100_000
		s.Set(now)
		req := sluice.SlotRequest{
			Scope: "s", Limit: sluice.SlotLimit{Name: "slots", Cap: 3, TTL: 2 * time.Second},
			Key: "k", Owner: fmt.Sprint(i % 5), Cost: 1 + int64(i%2),
		}
		before := s.kept(t, client)
		explained, err := s.ExplainSlot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if s.kept(t, client) != before {
			t.Fatal("to explain has changed the server")
		}
		decided, err := s.Slot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if explained != decided {
			t.Fatalf("explained %+v, decided %+v", explained, decided)
		}
	}
}

// TestExplainRefuses: operations that change states are not explained.
func TestExplainRefuses(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := clocked(t, server, "refused")
	s.Set(1_790_000_000_000_000)
	req := testkit.Request(testkit.Plan(t, "s", "10/s"), "k", 1)
	for _, op := range []sluice.Op{sluice.OpCharge, sluice.OpRefund, sluice.OpReset, sluice.OpTakeUpTo} {
		req.Op = op
		if _, err := s.Explain(t.Context(), req); err == nil {
			t.Errorf("%v is explained", op)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req.Op = sluice.OpTake
	if _, err := s.Explain(ctx, req); err == nil {
		t.Error("explained to nobody")
	}
}
