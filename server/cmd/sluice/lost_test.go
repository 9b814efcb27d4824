// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestOverridesWithoutAKeyEnd: an override whose rule or level is gone, or whose key has
// another form now, can be ended by its values, and by no others.
func TestOverridesWithoutAKeyEnd(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "overrides.json")
	var all []overrides.Stored
	for _, of := range []overrides.Stored{
		{Rule: "gone", Level: "user", Override: policy.Override{Key: []string{"ada", "192.0.2.1"}}},
		{Rule: "gone", Override: policy.Override{Key: []string{"ada"}}},
		{Rule: "net", Override: policy.Override{Key: []string{"192.0.2.1"}}},
		{Rule: "net", Override: policy.Override{Key: []string{"192.0.2.0/24"}}}, // active
		{Rule: "net", Override: policy.Override{Key: []string{"a", "b"}}},
		{Rule: "net", Override: policy.Override{Key: []string{"b", "a"}}},
	} {
		of.Limits, of.Reason, of.Author = []policy.Limit{{Limit: sluice.MustParseLimit("1/min sliding-log")}}, "launch", "eve"
		all = append(all, of)
	}
	doc := testkit.JSON(t, map[string]any{"version": 1, "overrides": all})
	testkit.WriteFile(t, file, doc)
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: net, by: ip/24/48, limits: 50/min}]\n", servetest.Named(t, "up")),
		servetest.Stopped, func(o *serve.Options) { o.Overrides = file })
	if logs, want := s.Logs.String(), "bring the rule back, or end it by sluice key override PART=VALUE... --rule gone --level user --remove"; !strings.Contains(logs, want) {
		t.Errorf("the log lacks %q:\n%s", want, logs)
	}
	saved := func() (left []string) {
		var doc struct{ Overrides []overrides.Stored }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range doc.Overrides {
			left = append(left, fmt.Sprint(o.Rule, "/", o.Level, o.Key))
		}
		return left
	}
	for _, c := range []struct{ key, fault, want string }{
		{"header.X-User=ada ip=192.0.2.1 --rule=gone", "no rule", ""},
		{"ip=192.0.2.1 --rule=gone --level=user", "no rule", ""},
		{"header.X-User=ada --rule=other", "no rule", ""},
		{"x=a y=b --rule=net", "in different orders", ""},
		{"header.X-User=ada ip=192.0.2.1 --rule=gone --level=user", "", "gone/user[ada 192.0.2.1]"},
		{"x=ada --rule=gone", "", "gone/[ada]"},
		{"ip=192.0.2.1 --rule=net", "", "net/[192.0.2.1]"},
		{"ip=192.0.2.1 --rule=net", "", "net/[192.0.2.0/24]"}, // whose network it is
		{"ip=192.0.2.1 --rule=net", "there is none", ""},
	} {
		before := saved()
		code := cli.OK
		if c.fault != "" {
			code = cli.Failed
		}
		_, stderr := command(t, code, append([]string{"key", "override", "--remove", "--admin=" + s.Admin}, strings.Fields(c.key)...)...)
		testkit.Contains(t, stderr, c.fault)
		want := slices.DeleteFunc(before, func(text string) bool { return text == c.want })
		if got := saved(); !slices.Equal(got, want) {
			t.Errorf("%s: %q are left, want %q", c.key, got, want)
		}
	}
}
