// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// countingRules are rules that each count keys of their own.
const countingRules = `
rules:
  - {name: a, by: header.X-A, limits: 1000/min}
  - {name: b, by: header.X-B, limits: 1000/min}
  - {name: c, by: header.X-C, limits: 1000/min}
  - {name: d, by: header.X-D, limits: 1000/min}
`

// wired returns a node without listeners, on the given store; empty is a store in this
// process.
func wired(t *testing.T, store string) *server {
	t.Helper()
	if store != "" {
		store = "store: {redis: " + store + "}\n"
	}
	c, err := config.Parse("test.yaml", []byte(store+countingRules))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Options: Options{Config: c, Log: slog.New(slog.DiscardHandler), Intervals: Intervals{Store: 20 * time.Millisecond, Heartbeat: 100 * time.Millisecond}}}
	t.Cleanup(func() {
		if err := s.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := s.wire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// counted returns decisions on n keys under each rule.
func counted(t *testing.T, n int) []evaluate.Call {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(countingRules))
	if err != nil {
		t.Fatal(err)
	}
	front, err := evaluate.New(evaluate.Options{Policy: c.Policy, Store: memstore.New(memstore.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]evaluate.Call, n)
	for i := range calls {
		a := policy.Request{Method: "GET", Path: "/", Headers: make(map[string][]string), Client: netip.MustParseAddr("192.0.2.1")}
		for _, rule := range []string{"A", "B", "C", "D"} {
			a.Headers["X-"+rule] = []string{rule + strconv.Itoa(i)}
		}
		front.Decide(t.Context(), a.Attributes(), &calls[i])
	}
	return calls
}

// estimates counts decisions at a node, and returns its estimates of keys under each rule.
// Estimates of 2,000 keys differ by chance under different secrets: all four agree once in
// 10^8 times.
func estimates(s *server, calls []evaluate.Call) (reported [4]int64) {
	for i := range calls {
		s.runtime.tally.Count(&calls[i].Event, tally.Cause{})
	}
	s.runtime.tally.Tick(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for i, rule := range []string{"a", "b", "c", "d"} {
		if hour, _, ok := s.runtime.tally.Keys(rule); ok {
			reported[i] = hour.Count().Seen
		}
	}
	return reported
}

// TestNodesShareASecret: nodes with the same store and prefix count keys under one secret,
// also those that started in an outage, once the store is back. Other nodes do not.
func TestNodesShareASecret(t *testing.T) {
	t.Parallel()
	redis, keys := redistest.Start(t, redistest.Redis(t)), counted(t, 2000)
	line := func(prefix string) string { return fmt.Sprintf(`{url: %q, prefix: %s}`, redis.URL(), prefix) }
	memory, memory2 := wired(t, ""), wired(t, "")
	redis.Kill(t)
	away, away2 := wired(t, line("site")), wired(t, line("site"))
	own := estimates(away, keys)
	if own == estimates(away2, keys) {
		t.Error("two nodes that the store was never there for have one secret")
	}
	redis.Run(t)
	var shared [4]int64
	testkit.Until(t, "a secret of both", func() bool {
		shared = estimates(away2, keys)
		return estimates(away, keys) == shared
	})
	if shared == own {
		t.Error("the node that came up while the store was unavailable still counts under its own secret")
	}
	late, other := wired(t, line("site")), wired(t, line("other"))
	testkit.Until(t, "the secret of one that comes up now", func() bool { return estimates(late, keys) == shared })
	client := redis.Client(t)
	testkit.Until(t, "a secret of another prefix", func() bool {
		return redistest.Number(t, client, "EXISTS", "other{1}!secret") == 1
	})
	for name, s := range map[string]*server{"of another prefix": other, "with a store in this process": memory, "with another in this process": memory2} {
		if estimates(s, keys) == shared {
			t.Errorf("a node %s has the same secret", name)
		}
	}
	if estimates(memory, keys) == estimates(memory2, keys) {
		t.Error("nodes with stores in their processes have one secret")
	}
}
