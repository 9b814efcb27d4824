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

	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/overview"
)

var statusCommand = cli.Command{
	Name: "status", Summary: "show the counts of a running sluice",
	Doc: "shows the active configuration, the requests by verdict under each rule, the requests that candidates would have denied, the keys denied most, and findings: limits that are too tight or never reached, and single clients with most denials. If nodes share a store, any node shows the sum of all nodes, and the list of nodes.",
	Flags: append(slices.Clone(adminFlags), jsonFlag,
		cli.Flag{Name: "nodes", Doc: "show the counts of each node, too"},
		cli.Flag{Name: "this-node", Doc: "show the counts of this node only"}),
	Run: runStatus,
}

// status is the output of the command. All but Fleet is about the node that is asked.
type status struct {
	Status   admin.Status      `json:"status"`
	Requests overview.Requests `json:"requests"`
	Top      overview.Top      `json:"top"`
	Rules    []overview.Rule   `json:"rules"`
	Fleet    *fleetview.Fleet  `json:"fleet,omitempty"` // of a shared store
}

// runStatus shows the state of a running program.
func runStatus(ctx context.Context, call *cli.Call) error {
	if call.Given("nodes") && call.Given("this-node") {
		return cli.Usagef("expected --nodes or --this-node, got both")
	}
	var s status
	var o overview.Overview
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
	if err == nil && !call.Given("this-node") && o.Store.Kind == "redis" {
		path := "/v1/fleet"
		if call.Given("nodes") {
			path += "?nodes=1"
		}
		s.Fleet = new(fleetview.Fleet)
		err = c.call(ctx, http.MethodGet, path, nil, s.Fleet)
	}
	switch s.Requests, s.Rules = o.Requests, o.Rules; {
	case err != nil:
		return err
	case call.Given("json"):
		return call.JSON(s)
	}
	return writeStatus(call.Stdout, &s)
}

// writeStatus writes the counts of all nodes together, or of this node if it is the only one.
func writeStatus(w io.Writer, s *status) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %s, active since %s\n", s.Status.File, s.Status.Hash, s.Status.Loaded.Format(time.RFC3339))
	if s.Status.Failure != "" {
		fmt.Fprintf(&b, "the last reload FAILED:\n%s\n", lines(s.Status.Failure))
	}
	var rules []overview.RuleStatus
	findings, top, requests := s.Rules, s.Top.Levels, &s.Requests
	if s.Fleet != nil {
		requests = &s.Fleet.Requests
	}
	for _, p := range requests.Problems {
		fmt.Fprintf(&b, "of late: %s\n", printable(p.Text))
	}
	if s.Fleet == nil {
		rules = s.Status.Rules
	} else {
		findings, top = nil, nil
		for i := range s.Fleet.Rules {
			r := &s.Fleet.Rules[i]
			rules, findings, top = append(rules, ofRule(&r.Rule)), append(findings, r.Rule), append(top, firstKeys(r.Top)...)
		}
		if err := writeNodes(&b, s.Fleet); err != nil {
			return err
		}
	}
	b.WriteByte('\n')
	if err := writeRules(&b, &requests.Total, rules, s.Fleet); err != nil {
		return err
	}
	for _, o := range s.Status.Overrides {
		until := "until it is removed"
		if !o.Expires.IsZero() {
			until = "until " + o.Expires.Format(time.RFC3339)
		}
		key := printable(strings.Join(o.Key, ", "))
		if o.Parts != nil {
			key = keyText(o.Parts, "")
		}
		fmt.Fprintf(&b, "\noverride of %s for %s: %s, %s (%s; %s)", levelOf(o.Rule, o.Level), key, joinLimits(o.Limits, ", "), until, printable(o.Reason), printable(o.Author))
		switch {
		case o.ThisNodeOnly:
			b.WriteString(", on this node only")
		case o.Version != "":
			fmt.Fprintf(&b, ", on all nodes, version %s", printable(o.Version))
		}
		if o.Unused != "" {
			fmt.Fprintf(&b, "; not in use: %s", printable(o.Unused))
		}
		b.WriteByte('\n')
	}
	if s.Status.Unconfirmed {
		b.WriteString("\nThe store cannot be reached: this node continues with these overrides, and other nodes may have others.\n")
	}
	for _, l := range top {
		fmt.Fprintf(&b, "\ndenied most by %s, of %d denials:\n", levelOf(l.Rule, l.Level), l.Total)
		for _, k := range l.Keys {
			fmt.Fprintf(&b, "  %s  %s\n", between(k.Least, k.Most), keyText(k.Parts, k.Hash))
		}
	}
	for i := range findings {
		for _, f := range findings[i].Findings {
			fmt.Fprintf(&b, "\n%s: %s\n", printable(findings[i].Name), printable(f.Text))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ofRule returns the counts of a rule in the form of a single node's: without its candidates.
func ofRule(r *overview.Rule) overview.RuleStatus {
	s := r.RuleStatus
	for _, c := range s.Candidates {
		s.Evaluated -= c.Evaluated
		s.WouldDeny -= c.WouldDeny
	}
	return s
}

// firstKeys returns the five keys of each level that were denied most.
func firstKeys(levels []overview.TopLevel) []overview.TopLevel {
	for i := range levels {
		levels[i].Keys = levels[i].Keys[:min(5, len(levels[i].Keys))]
	}
	return levels
}

// writeNodes writes the notes about a fleet, and its nodes.
func writeNodes(w *strings.Builder, f *fleetview.Fleet) error {
	nodes := "1 node"
	if f.Summed != 1 {
		nodes = fmt.Sprintf("%d nodes", f.Summed)
	}
	fmt.Fprintf(w, "counts are the sum of %s, as of %s\n", nodes, f.AsOf.Format(time.RFC3339))
	for _, n := range f.Notes {
		fmt.Fprintf(w, "%s: %s\n", n.Kind, printable(n.Text))
	}
	w.WriteByte('\n')
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var table strings.Builder
	table.WriteString("node\tversion\tconfiguration\tup\tlast seen\tpassed\tdenied\t\n")
	for i := range f.Nodes {
		n := &f.Nodes[i]
		name, seen := n.Label(), fmt.Sprintf("%.0f s ago", n.Seen)
		switch {
		case n.This:
			seen = "this node"
		case !n.Summed:
			seen += ", not in the sum"
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", printable(name), printable(n.Version), printable(n.Config), n.Uptime().Truncate(time.Second).String(), seen, n.Total.Passed(), n.Total.Denied)
	}
	if _, err := io.WriteString(t, table.String()); err != nil {
		return err
	}
	return t.Flush()
}

// writeRules writes the table of all requests and of those under each rule, with the counts
// of each node if fleet has them.
func writeRules(b *strings.Builder, total *history.Counts, rules []overview.RuleStatus, fleet *fleetview.Fleet) error {
	var table strings.Builder
	table.WriteString("rule\tallowed\twarned\tdelayed\tdenied\trefused\tfailed\tno limit\twould deny\t\n")
	fmt.Fprintf(&table, "all %d\t%s\t\t\n", total.Requests(), columns(total))
	for i, r := range rules {
		trial := ""
		if r.Mode == "shadow" {
			trial = fmt.Sprintf("%d of %d", r.WouldDeny, r.Evaluated)
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\t\n", printable(r.Name), columns(&r.Counts.Counts), trial)
		for _, c := range r.Candidates {
			name := c.Name
			if c.Level != "" {
				name = c.Level + "/" + name
			}
			fmt.Fprintf(&table, "candidate: %s\t\t\t\t\t\t\t\t%d of %d\t\n", printable(name), c.WouldDeny, c.Evaluated)
		}
		if fleet == nil {
			continue
		}
		for _, n := range fleet.Rules[i].Nodes {
			fmt.Fprintf(&table, "at %s\t%s\t\t\n", printable(fleet.Label(n.ID)), columns(&n.Counts.Counts))
		}
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(t, table.String()); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if slices.ContainsFunc(rules, func(r overview.RuleStatus) bool { return len(r.Candidates) > 0 }) {
		b.WriteString("\ncandidates: of requests without tier and override, or of a tier that the candidate names\n")
	}
	if n := total.UpstreamErrors; n > 0 {
		fmt.Fprintf(b, "\nof %d that passed %d got an error of the upstream\n", total.Passed(), n)
	}
	if n := total.Abandoned; n > 0 {
		fmt.Fprintf(b, "\nof all, %d left before they were decided\n", n)
	}
	return nil
}

// columns returns the cells of a row, without the denials of trials.
func columns(c *history.Counts) string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%d", c.Allowed, c.Warned, c.Delayed, c.Denied, c.Refused, c.Failed, c.FailedOpen)
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

// keyText writes a key in the form that "sluice key" reads.
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
