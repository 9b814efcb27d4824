// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/keys"
)

// keyDoc is the text that the commands about keys share.
const keyDoc = `The parts are those under "by" of the rules: ip=192.0.2.1, header.X-User=ada, claim.sub=7. An empty value names the budget that requests without the part share: header.X-User=`

func keyCommand(name, summary, doc string, run func(context.Context, *cli.Call, *adminClient, keys.Key) error, flags ...cli.Flag) cli.Command {
	return cli.Command{
		Name: "key " + name, Args: "PART=VALUE...", Summary: summary, Doc: doc + "\n\n" + keyDoc, ArgWords: []string{},
		Flags: slices.Concat([]cli.Flag{
			{Name: "rule", Value: "NAME", Doc: "of this rule alone"},
			{Name: "level", Value: "NAME", Doc: "of this level of the rule alone"},
		}, flags, adminFlags, []cli.Flag{jsonFlag}),
		Run: func(ctx context.Context, call *cli.Call) error {
			k, err := keyOf(call.Args, call.Values)
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			c, err := newAdminClient(call.Values)
			if err != nil {
				return err
			}
			return run(ctx, call, c, k)
		},
	}
}

// changeFlags are the flags of commands that make a change.
var changeFlags = []cli.Flag{
	{Name: "reason", Value: "TEXT", Doc: "why, for the audit log"},
	{Name: "author", Value: "NAME", Doc: "who makes the change (default: the user's name)"},
}

var keyCommands = []cli.Command{
	keyCommand("show", "show the units left of a key", "shows the units that a key has left under each limit of a running sluice. If a rule has tiers, all tiers are shown; add the part that names the tier to see one. If the decision log is a file, the last decisions about the key follow.", showKey),
	keyCommand("reset", "reset the counters of a key", "gives a key its whole quota again, on all nodes that share the store.", resetKey, changeFlags...),
	keyCommand("add", "give a key units", "reduces the debt of a key and, if the limit has credit, adds credit, on all nodes that share the store.", addToKey,
		append([]cli.Flag{{Name: "units", Value: "N", Doc: "how many"}}, changeFlags...)...),
	keyCommand("override", "give a key other limits for a while", "gives a key other limits on all nodes that share the store, within two seconds, also after a restart. If the store is in the memory of the node, the override is for that node only. If somebody else has changed the override meanwhile, nothing changes, and the error shows the other change. A --limit without an algorithm has that of the rule. --remove also ends an override of a rule or key that no longer exists: give its values and level as sluice status prints them.", overrideKey,
		append([]cli.Flag{
			{Name: "limit", Value: "TEXT", Repeat: true, Doc: "the limit, instead of the rule's"},
			{Name: "for", Value: "DURATION", Doc: "for how long, such as 24h (default: until it is removed)"},
			{Name: "expires", Value: "TIME", Doc: "until when, such as 2026-12-31T18:00:00Z"},
			{Name: "remove", Doc: "end the override"},
			{Name: "this-node", Doc: "on this node only, for an outage of the shared store: until it ends, or until a change of the key for all nodes arrives, even an earlier one"},
			{Name: "version", Value: "TEXT", Doc: "change nothing unless the override still has this version, as shown by an answer or sluice status"},
		}, changeFlags...)...),
}

func keyOf(parts []string, values cli.Values) (keys.Key, error) {
	if len(parts) == 0 {
		return keys.Key{}, errors.New("expected a key, such as ip=192.0.2.1")
	}
	k := keys.Key{Rule: values.One("rule"), Level: values.One("level"), Parts: make(map[string]string)}
	for _, p := range parts {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return k, fmt.Errorf("%q: expected a part with its value, such as ip=192.0.2.1", p)
		}
		if _, twice := k.Parts[name]; twice {
			return k, fmt.Errorf("%s: given twice; a key has each part once", name)
		}
		k.Parts[name] = value
	}
	return k, nil
}

// changeOf returns the reason and the author of a change. By default the author is the user.
func changeOf(call *cli.Call) admin.Change {
	c := admin.Change{Reason: call.One("reason"), Author: call.One("author")}
	if c.Author == "" {
		if u, err := user.Current(); err == nil {
			c.Author = u.Username
		}
	}
	return c
}

func showKey(ctx context.Context, call *cli.Call, c *adminClient, k keys.Key) error {
	q := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(k.Parts)) {
		q.Set(name, k.Parts[name])
	}
	if k.Rule != "" {
		q.Set("rule", k.Rule)
	}
	if k.Level != "" {
		q.Set("level", k.Level)
	}
	var states admin.KeyStates
	if err := c.call(ctx, http.MethodGet, "/v1/key?"+q.Encode(), nil, &states); err != nil {
		return err
	}
	var b strings.Builder
	for i := range states.Keys {
		writeKey(&b, &states.Keys[i])
	}
	if states.Omitted {
		b.WriteString("there are more; name a rule with --rule\n")
	}
	writeLast(&b, states.Last)
	return call.Show(states, b.String())
}

func writeKey(b *strings.Builder, s *admin.KeyState) {
	fmt.Fprintf(b, "%s: %s\n", levelOf(s.Rule, s.Level), keyText(s.Parts, ""))
	switch {
	case s.Exempt:
		b.WriteString("  exempt: its requests are not charged\n")
	case s.Override != "":
		fmt.Fprintf(b, "  override: %s\n", printable(s.Override))
	case s.Shadow:
		b.WriteString("  in shadow: nothing is denied\n")
	}
	writeLimits(b, s)
	if f := s.InFlight; f != nil {
		fmt.Fprintf(b, "  in flight\n    %d of %d used: %d free\n", f.Decision.Held, f.Limit.Cap, f.Decision.Free)
	}
}

// writeLimits writes the state of a key under its limits. If the rule has tiers, each line
// names its tier.
func writeLimits(b *strings.Builder, s *admin.KeyState) {
	write := func(of string, limits []admin.LimitState, unlimited bool) {
		if unlimited {
			fmt.Fprintf(b, "  %sno limit: its requests are counted, and never denied\n", of)
		}
		for _, l := range limits {
			fmt.Fprintf(b, "  %s%s\n    %s\n", of, l.Limit, l.Words)
		}
	}
	switch {
	case s.TierBy == "":
		write("", s.Limits, s.Unlimited)
		return
	case s.UnknownTier != "":
		fmt.Fprintf(b, "  the rule has no tier %q\n", s.UnknownTier)
	case s.Tier != "":
		write("tier "+printable(s.Tier)+": ", s.Limits, s.Unlimited)
		return
	case len(s.Tiers) > 0:
		fmt.Fprintf(b, "  a request's %s names the tier; add %s=NAME to see one tier\n", s.TierBy, s.TierBy)
	}
	write("no tier: ", s.Limits, s.Unlimited)
	for _, p := range s.Tiers {
		write("tier "+printable(p.Tier)+": ", p.Limits, p.Unlimited)
	}
	if s.MoreTiers > 0 {
		fmt.Fprintf(b, "  %d more tiers; add %s=NAME to see one\n", s.MoreTiers, s.TierBy)
	}
}

// levelOf returns the name of a level with its rule, or of the rule if the level has no name.
func levelOf(rule, level string) string {
	if level == "" {
		return printable(rule)
	}
	return printable(rule + "/" + level)
}

func resetKey(ctx context.Context, call *cli.Call, c *adminClient, k keys.Key) error {
	var done admin.ResetDone
	if err := c.call(ctx, http.MethodPost, "/v1/key/reset", admin.Reset{Key: k, Change: changeOf(call)}, &done); err != nil {
		return err
	}
	var b strings.Builder
	for i := range done.Keys {
		fmt.Fprintf(&b, "reset %s: %s\n", levelOf(done.Keys[i].Rule, done.Keys[i].Level), keyText(done.Keys[i].Parts, ""))
	}
	return call.Show(done, b.String()+where(done.ThisNodeOnly, done.NotTold))
}

func addToKey(ctx context.Context, call *cli.Call, c *adminClient, k keys.Key) error {
	units, err := strconv.ParseInt(call.One("units"), 10, 64)
	if err != nil || units < 1 {
		return cli.Usagef("--units %q: expected a number of units, such as --units 50", call.One("units"))
	}
	var done admin.AddDone
	if err := c.call(ctx, http.MethodPost, "/v1/key/add", admin.Add{Key: k, Units: units, Change: changeOf(call)}, &done); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "add to %s: %s\n", levelOf(done.Key.Rule, done.Key.Level), keyText(done.Key.Parts, ""))
	for _, g := range done.Given {
		fmt.Fprintf(&b, "  %s: %d given, %d left\n", g.Limit, g.Given, g.Remaining)
	}
	return call.Show(done, b.String()+where(done.ThisNodeOnly, done.NotTold))
}

// where describes the nodes that a change of a key affects.
func where(thisNodeOnly bool, notTold string) string {
	switch {
	case thisNodeOnly:
		return "on this node only: its store is in its memory\n"
	case notTold != "":
		return "in the store, for all nodes that share it; they could not be notified, and may use their cached state of the key for a second, or until a lease ends: " + printable(notTold) + "\n"
	}
	return "in the store, for all nodes that share it\n"
}

func overrideKey(ctx context.Context, call *cli.Call, c *adminClient, k keys.Key) error {
	o := admin.Override{Key: k, Limits: call.Values["limit"], Change: changeOf(call), ThisNode: call.Given("this-node"), Version: call.One("version")}
	var err error
	if o.Expires, err = expiry(call.One("for"), call.One("expires")); err != nil {
		return &cli.UsageError{Err: err}
	}
	method := http.MethodPut
	if call.Given("remove") {
		method = http.MethodDelete
	}
	var done admin.OverrideDone
	if err := c.call(ctx, method, "/v1/override", o, &done); err != nil {
		return err
	}
	var b strings.Builder
	writeKey(&b, &done.Key)
	if r := done.Replaced; r != nil {
		fmt.Fprintf(&b, "instead of %s (%s; %s)\n", joinLimits(r.Limits, ", "), printable(r.Reason), printable(r.Author))
	}
	if done.ThisNodeOnly {
		b.WriteString("on this node only: other nodes keep theirs\n")
	} else {
		fmt.Fprintf(&b, "on all nodes that share the store, version %s\n", done.Version)
	}
	if done.Problem != "" {
		fmt.Fprintf(&b, "%s\n", printable(done.Problem))
	}
	return call.Show(done, b.String())
}

// expiry returns the end of an override, zero if it has none.
func expiry(length, until string) (time.Time, error) {
	switch {
	case until != "" && length != "":
		return time.Time{}, errors.New("--for and --expires exclude each other; give one")
	case length != "":
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 {
			return time.Time{}, fmt.Errorf("--for %q: expected a duration, such as 24h", length)
		}
		return time.Now().Add(d).UTC().Truncate(time.Second), nil
	case until != "":
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return time.Time{}, fmt.Errorf("--expires %q: expected a time, such as 2026-12-31T18:00:00Z", until)
		}
		return at, nil
	}
	return time.Time{}, nil
}

// writeLast writes the last decisions, one a line.
func writeLast(b *strings.Builder, l *decided.List) {
	if l == nil {
		return
	}
	b.WriteString("last decisions\n")
	for i := range l.Decisions {
		d := &l.Decisions[i]
		fmt.Fprintf(b, "  %s  %s %d  %s %s  %s: %s", d.Time.Format("2006-01-02T15:04:05.000Z"), printable(d.Verdict), d.Status,
			printable(d.Method), printable(d.Path), printable(levelOf(d.Rule, d.Level)), printable(d.Limit))
		if d.Remaining != nil {
			fmt.Fprintf(b, ", %d left", *d.Remaining)
		}
		if d.Mode != "enforced" {
			fmt.Fprintf(b, " (%s)", printable(strings.TrimSpace(d.Mode+" "+d.Candidate)))
		}
		if d.LimitVerdict != d.Verdict {
			fmt.Fprintf(b, "; this limit: %s", printable(d.LimitVerdict))
		}
		b.WriteByte('\n')
	}
	if l.Note != "" {
		fmt.Fprintf(b, "  %s\n", l.Note)
	} else if len(l.Decisions) == 0 {
		b.WriteString("  none\n")
	}
	if l.Unreadable > 0 {
		fmt.Fprintf(b, "  lines of the log that cannot be read: %d\n", l.Unreadable)
	}
}

// printable returns a text that is safe to show on a terminal.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// lines is printable for a text of several lines.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = printable(strings.ReplaceAll(all[i], "\t", "  "))
	}
	return strings.Join(all, "\n")
}

var auditCommand = cli.Command{
	Name: "key audit", Summary: "list changes by operators, on all nodes", ArgWords: []string{},
	Doc: "asks a running sluice for the last changes that operators made to keys, the latest first: of all nodes that share its store, or of this node since its start where the store is in its memory.",
	Flags: append([]cli.Flag{
		{Name: "n", Letter: "n", Value: "N", Doc: "how many changes, 1000 at most (default 100)"},
	}, append(adminFlags, jsonFlag)...),
	Run: func(ctx context.Context, call *cli.Call) error {
		c, err := newAdminClient(call.Values)
		if err != nil {
			return err
		}
		var list audit.List
		if err := c.call(ctx, http.MethodGet, "/v1/audit?n="+url.QueryEscape(cmp.Or(call.One("n"), "100")), nil, &list); err != nil {
			return err
		}
		var b strings.Builder
		for i := range list.Entries {
			writeEntry(&b, &list.Entries[i])
		}
		switch {
		case list.Problem != "":
			fmt.Fprintf(&b, "on this node only, since its start: %s\n", printable(list.Problem))
		case list.ThisNodeOnly:
			b.WriteString("on this node only, since its start: its store is in its memory\n")
		}
		return call.Show(list, b.String())
	},
}

// writeEntry writes a change in a line, with its key and details.
func writeEntry(b *strings.Builder, e *audit.Shared) {
	fmt.Fprintf(b, "%s  %s by %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), printable(e.Action), printable(e.Author))
	if e.Node != "" {
		fmt.Fprintf(b, " on %s (%s)", printable(e.Node), printable(e.NodeID))
	}
	if e.Reason != "" {
		fmt.Fprintf(b, ": %s", printable(e.Reason))
	}
	switch {
	case e.Unknown:
		fmt.Fprintf(b, "; NOT KNOWN whether it was made: %s", printable(e.Error))
	case e.Error != "":
		fmt.Fprintf(b, "; NOT MADE: %s", printable(e.Error))
	}
	b.WriteByte('\n')
	if detail, err := json.Marshal(e.Detail); err == nil && len(e.Detail) > 0 {
		fmt.Fprintf(b, "    %s\n", printable(string(detail)))
	}
}
