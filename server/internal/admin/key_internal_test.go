// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/keys"
)

// TestOneCall: the state of a key under all its plans takes one call of the store, and so
// does a reset. A key with an override is asked for once.
func TestOneCall(t *testing.T) {
	limits := func(quota int64) []policy.Limit { return []policy.Limit{{Limit: sluice.PerMinute(quota)}} }
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	p, err := policy.Compile([]policy.Rule{{Name: "api", Levels: []policy.Level{{
		By: []policy.Part{policy.Header("X-User")}, Limits: limits(10),
		Tiers:     &policy.Tiers{By: policy.Header("X-Plan"), Limits: map[string][]policy.Limit{"a": limits(20), "b": limits(30)}},
		Overrides: []policy.Override{{Key: []string{"vip"}, Limits: limits(40), Reason: "r", Author: "a", Expires: now.Add(time.Hour)}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key      string
		now      time.Time
		requests int
	}{{"ada", now, 3}, {"vip", now, 1}, {"vip", now.Add(time.Hour), 3}} {
		store, last, fail := &testkit.Store{Store: memstore.New(memstore.Options{})}, 0, error(nil)
		store.After = func(sluice.Request, sluice.Result) error {
			if last--; last > 0 {
				return nil
			}
			return fail // of the last request of a batch
		}
		a := &API{o: APIOptions{Store: store, Now: func() time.Time { return c.now }}}
		one := func(name string, do func(*keys.Target) error) {
			t.Helper()
			calls, requests := store.Calls(), store.Asked()
			last = c.requests
			key := keys.Key{Parts: map[string]string{"header.X-User": c.key}}
			targets, _, err := key.Targets(p, nil)
			if err != nil || len(targets) != 1 {
				t.Fatalf("%v, %v", targets, err)
			}
			if err := do(&targets[0]); !errors.Is(err, fail) {
				t.Errorf("%s, %s: got %v, want %v", name, c.key, err, fail)
			}
			if calls, requests := store.Calls()-calls, store.Asked()-requests; calls != 1 || requests != int64(c.requests) {
				t.Errorf("%s, %s: %d calls of %d requests, want 1 of %d", name, c.key, calls, requests, c.requests)
			}
		}
		show := func(target *keys.Target) error {
			s, err := a.state(t.Context(), target)
			if err == nil && (len(s.Limits) != 1 || len(s.Tiers) != c.requests-1) {
				t.Errorf("%s: got %+v", c.key, s)
			}
			return err
		}
		reset := func(target *keys.Target) error { return a.reset(t.Context(), target) }
		one("show", show)
		one("reset", reset)
		fail = errors.New("gone")
		one("show", show)
		one("reset", reset)
	}
}
