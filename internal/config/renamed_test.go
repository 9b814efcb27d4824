// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/config"
)

// TestRenamed: a key under its old name is read, with a warning, and not beside the
// new one.
func TestRenamed(t *testing.T) {
	const rule = "rules:\n  - {name: api, by: ip, limits: 1/s, %s: {by: claim.plan, limits: {pro: 9/s}}}\ntokens: {hmac_file: key}\n"
	c, err := config.Parse("f", []byte(strings.Replace(rule, "%s", "plans", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if tiers := c.Policy.Rule(0).Levels[0].Tiers; tiers == nil || len(tiers.Limits["pro"]) != 1 {
		t.Errorf("got %+v", tiers)
	}
	const want = "f:2: warning: plans is called tiers now, and the old name is read in this release only; use tiers"
	if len(c.Warnings) != 1 || c.Warnings[0].String() != want {
		t.Errorf("got %v, want %s", c.Warnings, want)
	}
	if lint := config.Lint(c, time.Time{}); len(lint.Warnings) == 0 || lint.Warnings[0].String() != want {
		t.Errorf("lint says %v, want %s", lint.Warnings, want)
	}
	if c, err = config.Parse("f", []byte(strings.Replace(rule, "%s", "tiers", 1))); err != nil || len(c.Warnings) > 0 {
		t.Errorf("the new name: %v, %v", c.Warnings, err)
	}
	oldNames := "max_held: 20\nmax_held_per_key: 10\n" + strings.Replace(rule, "%s", "tiers", 1)
	if c, err = config.Parse("f", []byte(oldNames)); err != nil || len(c.Warnings) != 2 || c.MaxHeld != 20 || c.MaxHeldPerKey != 10 {
		t.Errorf("the queue's bounds under their old names: %v, %v", c.Warnings, err)
	}
	both := strings.Replace(rule, "%s", "plans: {by: claim.plan, limits: {pro: 9/s}}, tiers", 1)
	if _, err := config.Parse("f", []byte(both)); err == nil || !strings.Contains(err.Error(), `"tiers" is on line 2 already`) {
		t.Errorf("both: %v", err)
	}
	// A fault in what is under the old name has its place.
	bad := strings.Replace(strings.Replace(rule, "%s", "plans", 1), "9/s", "9/fortnight", 1)
	if _, err := config.Parse("f", []byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "f:2:") {
		t.Errorf("a fault: %v", err)
	}
}
