// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/server/admin"
)

const keyUsage = `  sluice key show PART=VALUE... [--rule NAME] [--level NAME]
  sluice key reset PART=VALUE... [--rule NAME] [--level NAME] [--reason TEXT]
  sluice key add PART=VALUE... --units N [--rule NAME] [--level NAME]
                 [--reason TEXT]
  sluice key override PART=VALUE... --rule NAME --limit TEXT... --reason TEXT
                      [--for DURATION | --expires TIME] [--level NAME]
  sluice key override PART=VALUE... --rule NAME --remove [--reason TEXT]

asks a running sluice what a key has left, makes it forget what the key has
spent, gives it units, or gives it other limits for a while. The parts are those that the rules'
keys are made of, as under "by": ip=192.0.2.1, header.X-User=ada, claim.sub=7.
The budget of requests without a part, where they share one: header.X-User=
What the text of a --limit does not name, such as its algorithm, is as in the rule.
--remove also ends an override whose rule or key is gone: write its values as
sluice status has them, and its level.

Where a rule has plans all are shown, or the one that is named by the part which
its requests name it by. An override is in force on the node that is asked, and
on no other; a reset, or an add, is for all nodes that share a store.
An add gives back what counts, and where the limit has credit, units above that.
Where the decision log is a file, show ends with the last decisions about the key.

  --admin ADDRESS    where it is (default 127.0.0.1:9090)
  --token-file FILE  holds its token, if it has one
  --author NAME      who makes the change (default: who you are)
`

// runKey shows and changes keys of a running program.
func runKey(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	values, rest, err := splitArgs(args, []string{"remove"}, "admin", "token-file", "rule", "level", "reason", "author", "limit", "for", "expires", "units")
	if err == nil && len(rest) == 0 {
		err = errors.New("key: says not what to do")
	}
	var k admin.Key
	if err == nil {
		k, err = keyOf(rest[1:], values)
	}
	if err != nil {
		return usageError(stderr, err, keyUsage)
	}
	c, err := newAdminClient(values)
	if err != nil {
		return ended(stderr, err)
	}
	switch rest[0] {
	case "show":
		err = showKey(ctx, c, k, stdout)
	case "reset":
		var done admin.ResetDone
		err = c.call(ctx, http.MethodPost, "/v1/key/reset", admin.Reset{Key: k, Reason: last(values["reason"]), Author: author(values)}, &done)
		if err == nil {
			err = writeReset(stdout, done)
		}
	case "add":
		err = addToKey(ctx, c, k, values, stdout)
	case "override":
		err = overrideKey(ctx, c, k, values, stdout)
	default:
		return usageError(stderr, fmt.Errorf("key: there is no %q", rest[0]), keyUsage)
	}
	return ended(stderr, err)
}

func keyOf(parts []string, values map[string][]string) (admin.Key, error) {
	k := admin.Key{Rule: last(values["rule"]), Level: last(values["level"]), Parts: make(map[string]string)}
	for _, p := range parts {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return k, fmt.Errorf("key: %q is not a part with its value; write for example ip=192.0.2.1", p)
		}
		if _, twice := k.Parts[name]; twice {
			return k, fmt.Errorf("key: %s is given twice", name)
		}
		k.Parts[name] = value
	}
	return k, nil
}

// author returns who makes a change.
func author(values map[string][]string) string {
	if a := last(values["author"]); a != "" {
		return a
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func showKey(ctx context.Context, c *adminClient, k admin.Key, stdout io.Writer) error {
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
	_, err := io.WriteString(stdout, b.String())
	return err
}

func writeKey(b *strings.Builder, s *admin.KeyState) {
	fmt.Fprintf(b, "%s: %s\n", levelOf(s.Rule, s.Level), keyText(s.Parts, ""))
	switch {
	case s.Exempt:
		b.WriteString("  exempt: its requests are not charged\n")
	case s.Override != "":
		fmt.Fprintf(b, "  limits of its own: %s\n", s.Override)
	case s.Shadow:
		b.WriteString("  in shadow: nothing is denied\n")
	}
	writeLimits(b, s)
	if f := s.InFlight; f != nil {
		fmt.Fprintf(b, "  in flight\n    %d of %d run now: %d more may\n", f.Held, f.Cap, f.Free)
	}
}

// writeLimits writes what a key has left. Where its rule has plans each line
// says of which it is.
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
	case s.PlanBy == "":
		write("", s.Limits, s.Unlimited)
		return
	case s.UnknownPlan != "":
		fmt.Fprintf(b, "  %q is none of its plans\n", s.UnknownPlan)
	case s.Plan != "":
		write("plan "+s.Plan+": ", s.Limits, s.Unlimited)
		return
	case len(s.Plans) > 0:
		fmt.Fprintf(b, "  the plan is what a request's %s says; add %s=NAME to see one alone\n", s.PlanBy, s.PlanBy)
	}
	write("no plan: ", s.Limits, s.Unlimited)
	for _, p := range s.Plans {
		write("plan "+p.Plan+": ", p.Limits, p.Unlimited)
	}
	if s.MorePlans > 0 {
		fmt.Fprintf(b, "  %d plans more; add %s=NAME to see one\n", s.MorePlans, s.PlanBy)
	}
}

// levelOf names a level of a rule; one that has no name is the rule.
func levelOf(rule, level string) string {
	if level == "" {
		return rule
	}
	return rule + "/" + level
}

func writeReset(w io.Writer, done admin.ResetDone) error {
	var b strings.Builder
	for i := range done.Keys {
		fmt.Fprintf(&b, "reset %s: %s\n", levelOf(done.Keys[i].Rule, done.Keys[i].Level), keyText(done.Keys[i].Parts, ""))
	}
	b.WriteString(where(done.ThisNodeOnly))
	_, err := io.WriteString(w, b.String())
	return err
}

func addToKey(ctx context.Context, c *adminClient, k admin.Key, values map[string][]string, stdout io.Writer) error {
	units, err := strconv.ParseInt(last(values["units"]), 10, 64)
	if err != nil || units < 1 {
		return fmt.Errorf("key add: --units %q is not a number of units; write for example --units 50", last(values["units"]))
	}
	var done admin.AddDone
	if err := c.call(ctx, http.MethodPost, "/v1/key/add", admin.Add{Key: k, Units: units, Reason: last(values["reason"]), Author: author(values)}, &done); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "add to %s: %s\n", levelOf(done.Key.Rule, done.Key.Level), keyText(done.Key.Parts, ""))
	for _, g := range done.Given {
		fmt.Fprintf(&b, "  %s: %d given, %d left\n", g.Limit, g.Given, g.Remaining)
	}
	b.WriteString(where(done.ThisNodeOnly))
	_, err = io.WriteString(stdout, b.String())
	return err
}

// where says for whom a change of a key is.
func where(thisNodeOnly bool) string {
	if thisNodeOnly {
		return "on this node only: its store is in its memory\n"
	}
	return "in the store, for all nodes that share it\n"
}

func overrideKey(ctx context.Context, c *adminClient, k admin.Key, values map[string][]string, stdout io.Writer) error {
	o := admin.Override{Key: k, Limits: values["limit"], Reason: last(values["reason"]), Author: author(values)}
	until, length := last(values["expires"]), last(values["for"])
	var err error
	switch {
	case until != "" && length != "":
		err = errors.New("--for and --expires exclude each other; give one")
	case length != "":
		var d time.Duration
		if d, err = time.ParseDuration(length); err == nil {
			o.Expires = time.Now().Add(d).UTC().Truncate(time.Second)
		}
	case until != "":
		if o.Expires, err = time.Parse(time.RFC3339, until); err != nil {
			err = fmt.Errorf("--expires %q: is not a moment; write for example 2026-12-31T18:00:00Z", until)
		}
	}
	if err != nil {
		return err
	}
	method := http.MethodPut
	if values["remove"] != nil {
		method = http.MethodDelete
	}
	var done admin.OverrideDone
	if err := c.call(ctx, method, "/v1/override", o, &done); err != nil {
		return err
	}
	var b strings.Builder
	writeKey(&b, &done.Key)
	if done.ThisNodeOnly {
		b.WriteString("on this node only: where several share a store, change each, or write it into their files\n")
	}
	_, err = io.WriteString(stdout, b.String())
	return err
}
