// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestTakeAllNamesWhatBinds: TakeAll names the limit that binds, of whichever charge, and
// charges all or none.
func TestTakeAllNamesWhatBinds(t *testing.T) {
	clock := testkit.NewClock()
	store := memstore.New(memstore.Options{Now: clock.Now})
	users := testkit.Limiter(t, store, "user", "burst: 2/s", "hour: 100/h")
	tenants := testkit.Limiter(t, store, "tenant", "5/min")
	take := func(user, tenant string, cost int64) sluice.JointDecision {
		t.Helper()
		d, err := sluice.TakeAll(t.Context(), store, users.Of(user, cost), tenants.Of(tenant, cost))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, c := range []struct {
		user, tenant string
		cost         int64
		allowed      bool
		scope, key   string
		limit        string
		retry        time.Duration
		tooLarge     bool
	}{
		{"ann", "acme", 2, true, "user", "ann", "burst", 0, false},
		{"ann", "acme", 1, false, "user", "ann", "burst", time.Second / 2, false},
		{"bob", "acme", 2, true, "user", "bob", "burst", 0, false},
		{"cho", "acme", 2, false, "tenant", "acme", "token-bucket.min", 12 * time.Second, false},
		{"cho", "acme", 3, false, "user", "cho", "burst", sluice.MaxRetryAfter, true},
	} {
		d := take(c.user, c.tenant, c.cost)
		if d.Allowed != c.allowed || d.Scope != c.scope || d.Key != c.key || d.Limit.Name != c.limit || d.RetryAfter != c.retry || d.TooLarge != c.tooLarge {
			t.Errorf("%d: got %+v, want %+v", i+1, d, c)
		}
	}
	if d := must(t)(users.Peek(t.Context(), "cho", 2)); !d.Allowed {
		t.Errorf("a denied request was charged: %+v", d)
	}
}

func TestTakeAllRefuses(t *testing.T) {
	store := memstore.New(memstore.Options{})
	users := testkit.Limiter(t, store, "user", "5/min")
	var fault *sluice.RequestError
	if _, err := sluice.TakeAll(t.Context(), store); !errors.As(err, &fault) || fault.Field != "Charge" {
		t.Errorf("no charges: %v", err)
	}
	if _, err := sluice.TakeAll(t.Context(), store, users.Of("k", 1), users.Of("k", 1)); !errors.As(err, &fault) || fault.Field != "More" {
		t.Errorf("a key twice: %v", err)
	}
	if _, err := sluice.TakeAll(t.Context(), nil, users.Of("k", 1)); err == nil {
		t.Error("no store: no error")
	}
	gone := errors.New("gone")
	if d, err := sluice.TakeAll(t.Context(), testkit.Failing(gone), users.Of("k", 1)); !errors.Is(err, gone) || d.Scope != "" {
		t.Errorf("a store that fails: %+v, %v", d, err)
	}
}

func TestAllow(t *testing.T) {
	lim := testkit.Limiter(t, memstore.New(memstore.Options{}), "login", "1/h")
	for _, want := range []bool{true, false} {
		if ok, err := lim.Allow(t.Context(), "k"); ok != want || err != nil {
			t.Errorf("got %v, %v, want %v", ok, err, want)
		}
	}
	gone := errors.New("gone")
	if ok, err := testkit.Limiter(t, testkit.Failing(gone), "login", "1/h").Allow(t.Context(), "k"); ok || !errors.Is(err, gone) {
		t.Errorf("a store that fails: %v, %v", ok, err)
	}
}
