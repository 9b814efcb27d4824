// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
	"github.com/sluicegate/sluice/server/internal/workbench/report"
)

var replayCommand = cli.Command{
	Name: "replay", Args: "FILE...", Summary: "show what limits would have done to the requests of a log",
	Doc: `decides the requests of access logs as the gateway would have, on virtual time: who would have been denied, when, and what the upstream would still have seen (docs/replay.md). FILE may be compressed, and - is standard input; several files are merged by time.

    sluice replay --limit "100/min" --by ip access.log access.log.1.gz
    sluice replay --limit "20/60s sliding-log" --key host --time time --format tsv requests.tsv
    sluice replay --config sluice.yaml --against old.yaml --html report.html access.log
    sluice replay --limit "100/min" --explain "192.0.2.7@2026-01-02T15:04:05Z" access.log
    sluice replay --limit "100/min" --accuracy access.log
`,
	Flags: []cli.Flag{
		{Name: "limit", Value: "TEXT", Repeat: true, Group: "Limits:", Doc: "a limit, as in sluice serve; of several limits all must have room"},
		{Name: "by", Value: "PART", Repeat: true, Doc: "the key of a request, as in sluice serve (default ip)"},
		{Name: "key", Value: "COLUMN", Doc: "the column, or field, that is the key, instead of --by"},
		{Name: "cost", Value: "COLUMN", Doc: "the column, or field, that is the cost of a request in units (default 1 each)"},
		{Name: "config", Value: "FILE", Doc: "the rules of a gateway's configuration, instead of --limit"},
		{Name: "against", Value: "FILE", Doc: "compare with the rules of another configuration, and show the keys whose verdict changes"},
		{Name: "format", Value: "NAME", Words: arrivals.Formats, Group: "Logs:", Doc: "of all files: " + strings.Join(arrivals.Formats, ", ") + " (default: detected)"},
		{Name: "time", Value: "COLUMN", Doc: "the column, or field, of the time (default: detected)"},
		{Name: "explain", Value: "KEY@TIME", Group: "Answers:", Doc: "show the arithmetic of the first decision about a key at this time or later"},
		{Name: "accuracy", Doc: "compare each algorithm with the exact log, for the quota and window of --limit"},
		{Name: "html", Value: "FILE", Doc: "also write the report as a page"},
		jsonFlag,
	},
	Run: runReplay,
}

// runReplay replays logs.
func runReplay(ctx context.Context, c *cli.Call) error {
	var o replay.Options
	words, err := replayRules(c.Values, &o)
	if err == nil && c.Given("explain") {
		o.Explain, err = parseMoment(c.One("explain"))
	}
	switch {
	case err != nil:
		return err
	case len(c.Args) == 0:
		return cli.Usagef("expected a log, got none; use FILE, or - for standard input")
	}
	log, err := arrivals.Open(c.Args, c.Stdin, arrivals.Options{Format: c.One("format"), Time: c.One("time"), Key: c.One("key"), Cost: c.One("cost")})
	if err != nil {
		return err
	}
	if log.Decisions() && c.Given("config") {
		if o.Policy, err = replay.OfDecisions(o.Policy); err == nil && o.Against != nil {
			o.Against.Policy, err = replay.OfDecisions(o.Against.Policy)
		}
		if err != nil {
			return err
		}
	}
	show, end := progressOf(c, log)
	o.Progress = show
	if c.Given("accuracy") {
		a, err := replay.Accuracy(ctx, log, o.Policy, o.Policy.Rules()[0].Levels[0].Limits[0].Limit, show)
		if end(); err != nil {
			return err
		}
		return writeReplay(c, a, report.OfAccuracy(a), nil)
	}
	r, err := replay.Run(ctx, log, o)
	if end(); err != nil {
		return err
	}
	if x := r.Explained; x != nil && !c.Given("json") {
		return c.Print(fmt.Sprintf("%s:%d, at %s\n%s", c.Args[x.File], x.Line, x.At.Format(time.RFC3339Nano), explanationText(x.Explanation, false)))
	}
	return writeReplay(c, r, report.Of(r, words), r)
}

// writeReplay writes a report in the forms that the flags name.
func writeReplay(c *cli.Call, doc any, sections []report.Section, r *replay.Result) error {
	if name := c.One("html"); name != "" {
		page, err := report.Page(sections, r)
		if err == nil {
			err = os.WriteFile(name, page, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return c.Show(doc, report.Text(sections))
}

// replayRules sets the rules of o and describes them in words. The error is a fault of the
// flags or of a file.
func replayRules(values cli.Values, o *replay.Options) (words string, err error) {
	load := func(name string) (replay.Rules, error) {
		c, err := loadFile(name)
		if err != nil {
			return replay.Rules{}, err
		}
		r := replay.Rules{Policy: c.Policy, Allow: c.Allow, Deny: c.Deny, MaxKeys: int(c.Store.MaxKeys)}
		if c.Store.Redis != "" {
			r.MaxKeys = unbounded
		}
		return r, nil
	}
	if old := values.One("against"); old != "" {
		o.Against = new(replay.Rules)
		if *o.Against, err = load(old); err != nil {
			return "", err
		}
	}
	if file := values.One("config"); file != "" {
		if values.Given("limit") || values.Given("by") || values.Given("key") || values.Given("cost") || values.Given("accuracy") {
			return "", cli.Usagef("--config has the rules; leave out --limit, --by, --key, --cost and --accuracy")
		}
		o.Rules, err = load(file)
		return "rules of " + file, err
	}
	limits, by := values["limit"], values["by"]
	switch {
	case len(limits) == 0:
		return "", cli.Usagef("--limit: there is none; use for example --limit 100/min, or --config FILE")
	case values.Given("key") && len(by) > 0:
		return "", cli.Usagef("--key and --by exclude each other; give one")
	case values.Given("accuracy") && len(limits) > 1:
		return "", cli.Usagef("--accuracy compares one limit; give one --limit")
	case len(by) == 0:
		by = []string{"ip"}
	}
	f := &serveFlags{Values: cli.Values{"limit": slices.Clone(limits), "by": by, "upstream": {"http://127.0.0.1:1"}, "name": {"replay"}}}
	c := f.parse()
	if err = errors.Join(f.faults...); err != nil {
		return "", &cli.UsageError{Err: err}
	}
	o.MaxKeys = unbounded
	o.Policy, err = replay.Columns(c.Policy, values.Given("key"), values.Given("cost"))
	return strings.Join(limits, " and ") + " by " + cmp.Or(values.One("key"), strings.Join(by, " and ")), err
}

// unbounded is a number of states at which none is evicted.
const unbounded = 1 << 26

// parseMoment reads KEY@TIME.
func parseMoment(text string) (*replay.Moment, error) {
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return nil, cli.Usagef("--explain %q: expected a key and a time, such as 192.0.2.7@2026-01-02T15:04:05Z", text)
	}
	at, err := arrivals.ParseTime(text[i+1:])
	if err != nil {
		return nil, cli.Usagef("--explain %q: the time is not one; use one such as 2026-01-02T15:04:05Z", text)
	}
	return &replay.Moment{Key: text[:i], At: at}, nil
}

// progressOf returns functions that show on a terminal how far a replay is, at most every
// 200 ms, and that remove this at the end.
func progressOf(c *cli.Call, log *arrivals.Log) (show func(requests int64), end func()) {
	started, shown := time.Now(), time.Time{}
	if f, ok := c.Stderr.(*os.File); !ok {
		return func(int64) {}, func() {}
	} else if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(int64) {}, func() {}
	}
	show = func(requests int64) {
		if now := time.Now(); now.Sub(shown) > 200*time.Millisecond {
			shown = now
			part := ""
			if log.Size > 0 {
				part = fmt.Sprintf(" %d %%,", 100*log.Read()/log.Size)
			}
			rate := report.Count(int64(float64(requests) / now.Sub(started).Seconds()))
			_, _ = fmt.Fprintf(c.Stderr, "\r\x1b[Kreplay:%s %s requests, %s a second", part, report.Count(requests), rate) // progress only
		}
	}
	return show, func() { _, _ = fmt.Fprint(c.Stderr, "\r\x1b[K") }
}
