// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestOverridesThatNoLongerFit: such overrides are left out and logged, up to a number, at the
// start and after a reload; they stay in their file, return with the rule, and can be removed.
func TestOverridesThatNoLongerFit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "overrides.json")
	var all []overrides.Stored
	for i := range 1000 {
		all = append(all, overrides.Stored{Rule: "api", Override: policy.Override{
			Key: []string{fmt.Sprint("u", i)}, Limits: []policy.Limit{{Limit: sluice.MustParseLimit("1/min sliding-log")}}, Reason: "launch", Author: "eve",
		}})
	}
	doc := testkit.JSON(t, map[string]any{"version": 1, "overrides": all})
	testkit.WriteFile(t, file, doc)
	rules := func(limits string) string {
		return fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, %s}]\n", servetest.Named(t, "up"), limits)
	}
	bytes := rules("cost: response-bytes, limits: 2MB/h sliding-histogram")
	s := servetest.Start(t, bytes, servetest.Stopped, func(o *serve.Options) { o.Overrides = file })
	for range 3 {
		s.Want(t, 200, "/", "X-User", "u1")
	}
	logs := s.Logs.String()
	for _, want := range []string{
		"rule=api", "reason=launch", "its limits do not fit the rule: counts requests but the rule's cost is in bytes",
		"make it again, or end it by sluice key override PART=VALUE... --rule api --remove; ", "overrides=990",
	} {
		testkit.Contains(t, logs, want)
	}
	if n := strings.Count(logs, "left out"); n != 11 {
		t.Errorf("%d lines, want 11", n)
	}
	const u1 = `{"rule": "api", "parts": {"header.X-User": "u1"}, "reason": "x", "author": "eve"`
	one := s.Ask(t, http.MethodPut, "/v1/override", u1+`, "limits": ["5/min"]}`)
	if want := "counts requests but the rule's cost is in bytes"; one.Status == http.StatusOK || !strings.Contains(one.Body, want) {
		t.Errorf("one more: got %q, want %q", one.Body, want)
	}
	s.Ask(t, http.MethodDelete, "/v1/override", u1+"}")
	change := func(yaml string) {
		t.Helper()
		s.ChangeTo(t, yaml)
	}
	change(rules("limits: 50/min sliding-log"))
	for user, want := range map[string]int{"u1": 200, "u2": 429} {
		s.Get(t, "/", "X-User", user)
		s.Want(t, want, "/", "X-User", user)
	}
	change(bytes)
	s.Want(t, 200, "/", "X-User", "u2")
}

// TestOverrideOutlivesItsRule: an override stays as it was made when the limits of its rule
// change.
func TestOverrideOutlivesItsRule(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{name: a, by: ip, limits: %s}]\n"
	upstream := fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))
	s := servetest.Start(t, upstream+fmt.Sprintf(rules, "50/h sliding-log"), servetest.Stopped)
	s.Override(t, "a", "ip", "127.0.0.1", "2/h")
	for range 2 {
		s.Want(t, http.StatusOK, "/")
	}
	for _, limits := range []string{"[50/h sliding-log, 600/min, 3000/h token-bucket]", "50/h", "60/h sliding-counter"} {
		s.ChangeTo(t, upstream+fmt.Sprintf(rules, limits))
		s.Want(t, http.StatusTooManyRequests, "/")
	}
}
