// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluicegate/sluice/internal/cli"
	"github.com/sluicegate/sluice/internal/server/admin"
)

var statusCommand = cli.Command{
	Name: "status", Summary: "show the counts of a running sluice",
	Doc:   "shows the active configuration, the requests by verdict under each rule, the requests that candidates would have denied, the keys denied most, and findings: limits that are too tight or never reached, and single clients with most denials.",
	Flags: append(slices.Clone(adminFlags), jsonFlag),
	Run:   runStatus,
}

// runStatus shows what a running program does.
func runStatus(ctx context.Context, call *cli.Call) error {
	if len(call.Args) > 0 {
		return cli.Usagef("expected no argument, got %q", call.Args[0])
	}
	var s struct {
		Status admin.Status         `json:"status"`
		Top    admin.Top            `json:"top"`
		Rules  []admin.RuleOverview `json:"rules"`
	}
	var o admin.Overview
	c, err := newAdminClient(call.Values)
	if err == nil {
		err = c.call(ctx, http.MethodGet, "/policy", nil, &s.Status)
	}
	if err == nil {
		err = c.call(ctx, http.MethodGet, "/v1/top?n=5", nil, &s.Top)
	}
	if err == nil {
		err = c.call(ctx, http.MethodGet, "/v1/overview", nil, &o)
	}
	switch s.Rules = o.Rules; {
	case err != nil:
		return err
	case call.Given("json"):
		return call.JSON(s)
	}
	return writeStatus(call.Stdout, &s.Status, &s.Top, s.Rules)
}

func writeStatus(w io.Writer, s *admin.Status, top *admin.Top, rules []admin.RuleOverview) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %s, active since %s\n", s.File, s.Hash, s.Loaded.Format(time.RFC3339))
	if s.Failure != "" {
		fmt.Fprintf(&b, "the last reload FAILED:\n%s\n", s.Failure)
	}
	b.WriteByte('\n')
	var table strings.Builder
	table.WriteString("rule\tallowed\twarned\tdenied\trefused\tfailed\twould deny\t\n")
	for _, r := range s.Rules {
		trial := ""
		if r.Mode == "shadow" {
			trial = fmt.Sprintf("%d of %d", r.WouldDeny, r.Evaluated)
		}
		fmt.Fprintf(&table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", r.Name, r.Allowed, r.Warned, r.Denied, r.Refused, r.Failed, trial)
		for _, c := range r.Candidates {
			name := c.Name
			if c.Level != "" {
				name = c.Level + "/" + name
			}
			fmt.Fprintf(&table, "candidate: %s\t\t\t\t\t\t%d of %d\t\n", name, c.WouldDeny, c.Evaluated)
		}
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(t, table.String()); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, o := range s.Overrides {
		until := "until it is removed"
		if !o.Expires.IsZero() {
			until = "until " + o.Expires.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "\noverride of %s for %s: %s, %s (%s; %s)", levelOf(o.Rule, o.Level), strings.Join(o.Key, ", "), strings.Join(o.Limits, ", "), until, o.Reason, o.Author)
		switch {
		case o.ThisNodeOnly:
			b.WriteString(", on this node only")
		case o.Version != "":
			fmt.Fprintf(&b, ", on all nodes, version %s", o.Version)
		}
		if o.Unused != "" {
			fmt.Fprintf(&b, "; not in use: %s", o.Unused)
		}
		b.WriteByte('\n')
	}
	if s.Unconfirmed {
		b.WriteString("\nThe store cannot be reached: this node goes on with these overrides, and other nodes may have others.\n")
	}
	for _, l := range top.Levels {
		fmt.Fprintf(&b, "\ndenied most by %s, of %d denials:\n", levelOf(l.Rule, l.Level), l.Total)
		for _, k := range l.Keys {
			fmt.Fprintf(&b, "  %s  %s\n", between(k.Least, k.Most), keyText(k.Parts, k.Hash))
		}
	}
	for i := range rules {
		for _, f := range rules[i].Findings {
			fmt.Fprintf(&b, "\n%s: %s\n", rules[i].Name, f.Text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func between(least, most uint64) string {
	switch {
	case most == 1:
		return "once"
	case least == most:
		return fmt.Sprintf("%d times", most)
	}
	return fmt.Sprintf("%d to %d times", least, most)
}

// keyText writes a key as "sluice key" reads it.
func keyText(parts map[string]string, hash string) string {
	if hash != "" {
		return "hidden:" + hash
	}
	if len(parts) == 0 {
		return "one for all"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		text := name + "=" + parts[name]
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\$`&|;<>()*?#~", r) }) {
			text = fmt.Sprintf("%q", text)
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}
