// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/keys"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/report"
)

// TestKeyStatusTerminal: texts of others do not send control characters to a terminal.
func TestKeyStatusTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\x07\x1b[2J\u009b"
	var b strings.Builder
	writeKey(&b, &admin.KeyState{Key: keys.Key{Rule: hostile}, Override: hostile + " (eve)", TierBy: "header.Plan", Tier: hostile, Limits: []admin.LimitState{{}}})
	s := status{Status: admin.Status{Failure: hostile, Overrides: []overrides.Stored{{
		Rule: hostile, Override: policy.Override{Key: []string{hostile}, Reason: hostile, Author: hostile}, Unused: hostile,
	}}}}
	s.Fleet = &fleetview.Fleet{
		Nodes: []fleetview.Node{{Node: report.Node{Name: hostile, Version: hostile, Config: hostile}}}, Notes: []fleetview.Note{{Kind: "warn", Text: hostile}},
		Rules: []fleetview.Rule{{Rule: overview.Rule{RuleStatus: overview.RuleStatus{Name: hostile}}}},
	}
	if err := writeStatus(&b, &s); err != nil {
		t.Fatal(err)
	}
	b.WriteString(where(false, hostile))
	b.WriteString(lines("a\n" + hostile))
	if strings.ContainsAny(b.String(), "\x1b\x07\u009b") || !strings.Contains(b.String(), "owned") {
		t.Errorf("written: %q", b.String())
	}
	var entry strings.Builder
	writeEntry(&entry, &audit.Shared{Entry: audit.Entry{Error: "the store has not answered", Unknown: true}})
	if text := entry.String(); !strings.Contains(text, "NOT KNOWN") || strings.Contains(text, "NOT MADE") {
		t.Errorf("a change that may have been made: %q", text)
	}
}
