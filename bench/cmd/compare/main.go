// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command compare runs the benchmarks of this module, one process for each
// contender and each benchmark, in turns: every contender once, then every one
// again. It prints medians and, round by round, ratios, and keeps the raw
// results with what is known of the machine.
//
// Run it in the module's folder:
//
//	go run ./cmd/compare -help
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/bench/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	rounds, cores, tries int
	benchtime            time.Duration
	groups               []string
	who                  *regexp.Regexp
	results              string
	from                 string
	goals                bool
	before               string
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	var groups, who string
	names := groupNames()
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.rounds, "rounds", 6, "how often each contender has its turn, 1 to 100")
	fs.IntVar(&o.cores, "cores", 2, "GOMAXPROCS of the benchmarks, 1 to 1024")
	fs.IntVar(&o.tries, "tries", 3, "attempts to get a turn in which the machine gave the cores that were asked for, 1 to 20")
	fs.DurationVar(&o.benchtime, "benchtime", 300*time.Millisecond, "length of one turn of a benchmark that is timed, 1ms to 1m")
	fs.StringVar(&groups, "groups", strings.Join(names, ","), "which benchmarks")
	fs.StringVar(&who, "who", ".", "regular expression of which contenders, such as '^(floor|sluice)$'")
	fs.StringVar(&o.results, "results", "results", "folder for raw results; empty keeps none")
	fs.StringVar(&o.from, "from", "", "run nothing: print the tables of this file of raw results")
	fs.BoolVar(&o.goals, "goals", false, "only what is compared with a goal")
	fs.StringVar(&o.before, "before", "", "a program that go test -c has made of this package at another commit: its sluice is measured beside, as before")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not understood; there are only flags", fs.Arg(0))
	}
	for _, f := range []struct {
		name         string
		v, low, high int
	}{{"rounds", o.rounds, 1, 100}, {"cores", o.cores, 1, 1024}, {"tries", o.tries, 1, 20}} {
		if f.v < f.low || f.v > f.high {
			return o, fmt.Errorf("-%s %d must be %d to %d", f.name, f.v, f.low, f.high)
		}
	}
	if o.benchtime < time.Millisecond || o.benchtime > time.Minute {
		return o, fmt.Errorf("-benchtime %v must be 1ms to 1m", o.benchtime)
	}
	known := make(map[string]bool)
	for _, n := range names {
		known[n] = true
	}
	for g := range strings.SplitSeq(groups, ",") {
		if !known[g] {
			return o, fmt.Errorf("-groups: no group %q; there are %s", g, strings.Join(names, ","))
		}
		o.groups = append(o.groups, g)
	}
	var err error
	if o.who, err = regexp.Compile(who); err != nil {
		return o, fmt.Errorf("-who: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	if o.from != "" {
		header, set, err := reread(o.from, o.cores)
		if err != nil {
			return err
		}
		return writeTables(stdout, header, set, o.cores)
	}
	turns := plan(o)
	if len(turns) == 0 {
		return fmt.Errorf("-who %v matches no contender of these groups", o.who)
	}
	binary, cleanUp, err := build(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := cleanUp(); err == nil {
			err = e
		}
	}()
	host, err := record.Inspect(ctx, o.cores, fmt.Sprintf("-rounds %d -benchtime %v -cores %d -tries %d -groups %s -who %v -goals=%t -before %q",
		o.rounds, o.benchtime, o.cores, o.tries, strings.Join(o.groups, ","), o.who, o.goals, filepath.Base(o.before)))
	if err != nil {
		return err
	}
	raw, err := record.New(o.results, "", host)
	if err != nil {
		return err
	}
	set, err := takeTurns(ctx, o, turns, runner{binary: binary, before: o.before, cores: o.cores}, raw, stderr)
	if closeErr := raw.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return publish(o, host, raw, set, stdout)
}
