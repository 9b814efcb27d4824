// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestKeyOfSeveralSources: a key made of the first of several parts has the name of its rule
// in status, in the audit log and in the list of overrides.
func TestKeyOfSeveralSources(t *testing.T) {
	t.Parallel()
	audit, overrides := filepath.Join(t.TempDir(), "audit.jsonl"), filepath.Join(t.TempDir(), "overrides.json")
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+`
rules:
  - {name: api, by: {first: [header.X-User, ip]}, limits: 3/min sliding-log}
`, servetest.Stopped, func(o *serve.Options) { o.Audit, o.Overrides = audit, overrides })
	at := "--admin=" + s.Admin
	command(t, cli.OK, "key", "override", "header.X-User=bob", "--rule=api", "--limit=1/min sliding-log", "--reason=abuse", "--author=eve", at)
	for range 2 {
		s.Get(t, "/", "X-User", "bob")
	}
	out, _ := command(t, cli.OK, "status", at)
	testkit.Contains(t, out, "override of api for header.X-User=bob: 1/min sliding-log", "once  header.X-User=bob")
	list, _ := command(t, cli.OK, "key", "audit", at)
	for _, text := range []string{list, string(testkit.ReadFile(t, audit))} {
		testkit.Contains(t, text, `"parts":{"header.X-User":"bob"}`)
	}
	if kept, err := os.ReadFile(overrides); err != nil || strings.Contains(string(kept), "parts") {
		t.Errorf("kept %s, %v", kept, err)
	}
	command(t, cli.OK, "key", "override", "header.X-User=bob", "--rule=api", "--remove", "--author=eve", at)
}
