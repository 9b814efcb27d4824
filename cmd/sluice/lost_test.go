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
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/server/admin"
)

// TestOverridesThatNoLongerFit: they are left out and told, a few of them, at
// the start and after a change of the file; they stay in their file, come back
// with the rule, and can be removed.
func TestOverridesThatNoLongerFit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	var all []admin.StoredOverride
	for i := range 1000 {
		all = append(all, admin.StoredOverride{Rule: "api", Key: []string{fmt.Sprint("u", i)}, Limits: []string{"1/min sliding-log"}, Reason: "launch", Author: "eve"})
	}
	doc, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	rules := func(limits string) string {
		return fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, %s}]\n", named(t, "up"), limits)
	}
	bytes := rules("cost: response-bytes, limits: 2MB/h sliding-histogram")
	s := startSite(t, bytes, stopped, func(c *siteConfig) { c.overrides = file })
	for i := range 3 {
		if got := s.get(t, "/", "X-User", "u1"); got.status != 200 {
			t.Errorf("request %d: got %d", i+1, got.status)
		}
	}
	logs := s.logs.String()
	for _, want := range []string{
		"rule=api", "reason=launch", "its limits do not fit the rule: counts requests but the rule's cost is in bytes",
		"make it anew, or end it by sluice key override PART=VALUE... --rule api --remove; ", "overrides=990",
	} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log lacks %q:\n%.2000s", want, logs)
		}
	}
	if n := strings.Count(logs, "left out"); n != 11 {
		t.Errorf("%d lines, want 11", n)
	}
	at := "--admin=" + s.admin
	_, stderr := command(t, exitFailed, "key", "override", "header.X-User=u1", "--rule=api", "--limit=5/min", "--reason=x", at)
	if want := "counts requests but the rule's cost is in bytes"; !strings.Contains(stderr, want) {
		t.Errorf("one more: got %q, want %q", stderr, want)
	}
	command(t, exitOK, "key", "override", "header.X-User=u1", "--rule=api", "--remove", at)
	change := func(yaml string) {
		t.Helper()
		before := s.hash(t)
		s.write(t, yaml)
		s.hurry <- syscall.SIGHUP
		until(t, "the change", func() bool { return s.hash(t) != before })
	}
	change(rules("limits: 50/min sliding-log"))
	for user, want := range map[string]int{"u1": 200, "u2": 429} {
		s.get(t, "/", "X-User", user)
		if got := s.get(t, "/", "X-User", user); got.status != want {
			t.Errorf("%s after the rule is back: got %d, want %d", user, got.status, want)
		}
	}
	change(bytes)
	if got := s.get(t, "/", "X-User", "u2"); got.status != 200 {
		t.Errorf("after the second change: got %d", got.status)
	}
}

// TestOverridesWithoutAKeyEnd: one whose rule or level is gone, or whose key has
// another form now, ends by the values that it was made for, and no other does.
func TestOverridesWithoutAKeyEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	var all []admin.StoredOverride
	for _, of := range []admin.StoredOverride{
		{Rule: "gone", Level: "user", Key: []string{"ada", "192.0.2.1"}},
		{Rule: "gone", Key: []string{"ada"}},
		{Rule: "net", Key: []string{"192.0.2.1"}},
		{Rule: "net", Key: []string{"192.0.2.0/24"}}, // in force
		{Rule: "net", Key: []string{"a", "b"}},
		{Rule: "net", Key: []string{"b", "a"}},
	} {
		of.Limits, of.Reason, of.Author = []string{"1/min sliding-log"}, "launch", "eve"
		all = append(all, of)
	}
	doc, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, fmt.Sprintf("upstream: %q\nrules: [{name: net, by: ip/24/48, limits: 50/min}]\n", named(t, "up")),
		stopped, func(c *siteConfig) { c.overrides = file })
	if logs, want := s.logs.String(), "bring the rule back, or end it by sluice key override PART=VALUE... --rule gone --level user --remove"; !strings.Contains(logs, want) {
		t.Errorf("the log lacks %q:\n%s", want, logs)
	}
	saved := func() (left []string) {
		var all []admin.StoredOverride
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
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
		code := exitOK
		if c.fault != "" {
			code = exitFailed
		}
		_, stderr := command(t, code, append([]string{"key", "override", "--remove", "--admin=" + s.admin}, strings.Fields(c.key)...)...)
		if !strings.Contains(stderr, c.fault) {
			t.Errorf("%s: got %q, want %q", c.key, stderr, c.fault)
		}
		want := slices.DeleteFunc(before, func(text string) bool { return text == c.want })
		if got := saved(); !slices.Equal(got, want) {
			t.Errorf("%s: %q are left, want %q", c.key, got, want)
		}
	}
}
