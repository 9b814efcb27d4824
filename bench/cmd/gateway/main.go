// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command gateway measures sluice serve and other reverse proxies as programs:
// processes and sockets on this machine, in turns, with nginx behind them and
// wrk, or a client of its own, in front.
//
// Run it in the module's folder:
//
//	go run ./cmd/gateway -help
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/bench/record"
	"github.com/sluicegate/sluice/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	rounds  int
	length  time.Duration
	groups  []string
	traefik string
	before  string
	results string
	rate    int
	attack  string
	soak    time.Duration
	// neighbour is whether a process that is always busy runs beside the group reload.
	neighbour bool

	role, listen, upstream string
}

// all are the groups in the order in which they run; those behind byDefault are asked
// for by name.
var all = []string{"proxy", "latency", "denied", "handlers", "reload", "memory", "logs", "lines", "checks", "fronts", "soak", "attacks"}

const byDefault = 10

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	var groups string
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.rounds, "rounds", 5, "how often each contender has its turn, 1 to 100")
	fs.DurationVar(&o.length, "length", 4*time.Second, "how long each contender has in a round, 1s to 1m")
	fs.StringVar(&groups, "groups", strings.Join(all[:byDefault], ","), "which measurements; there are soak and attacks, too")
	fs.StringVar(&o.traefik, "traefik", "", "a traefik to compare with; see make traefik")
	fs.StringVar(&o.before, "before", "", "another sluice program, such as one built before a change, to be measured beside")
	fs.StringVar(&o.results, "results", "results", "folder for raw results; empty keeps none")
	fs.IntVar(&o.rate, "rate", 2000, "requests a second of the groups reload, soak and attacks, 1 to 100000")
	fs.StringVar(&o.attack, "attack", "", "only attacks whose names contain this")
	fs.DurationVar(&o.soak, "soak", 10*time.Minute, "length of the soak, 1s to 24h")
	fs.BoolVar(&o.neighbour, "neighbour", false, "in the group reload, run a process that is always busy beside all others")
	fs.StringVar(&o.role, "role", "", "be a server to compare with, empty, constant, reverseproxy or unlimited, a part of the group attacks, or busy")
	fs.StringVar(&o.listen, "listen", "", "where that server listens")
	fs.StringVar(&o.upstream, "upstream", "", "and what it passes requests on to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not understood; there are only flags", fs.Arg(0))
	}
	switch {
	case o.rounds < 1 || o.rounds > 100:
		return o, fmt.Errorf("-rounds %d must be 1 to 100", o.rounds)
	case o.length < time.Second || o.length > time.Minute:
		return o, fmt.Errorf("-length %v must be 1s to 1m", o.length)
	case o.rate < 1 || o.rate > 100_000:
		return o, fmt.Errorf("-rate %d must be 1 to 100000", o.rate)
	case o.soak < time.Second || o.soak > 24*time.Hour:
		return o, fmt.Errorf("-soak %v must be 1s to 24h", o.soak)
	}
	for g := range strings.SplitSeq(groups, ",") {
		if !slices.Contains(all, g) {
			return o, fmt.Errorf("-groups: no group %q; there are %s", g, strings.Join(all, ","))
		}
		o.groups = append(o.groups, g)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	if o.role == busyRole {
		return beBusy(ctx)
	}
	if o.role != "" {
		return serveRole(ctx, o.role, o.listen, o.upstream)
	}
	for _, name := range []string{"wrk", "nginx"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w; install it, such as by apt-get install %s", err, name)
		}
	}
	h, cleanUp, err := newHouse(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	host, err := record.Inspect(ctx, 2, fmt.Sprintf("-rounds %d -length %v -groups %s -rate %d -attack %q -neighbour=%t", o.rounds, o.length, strings.Join(o.groups, ","), o.rate, o.attack, o.neighbour))
	if err != nil {
		return err
	}
	raw, err := record.New(o.results, "gateway-", host)
	if err != nil {
		return err
	}
	m := &measurer{options: o, house: h, raw: raw, progress: stderr}
	err = m.all(ctx)
	if err = errors.Join(err, raw.Close()); err != nil {
		return err
	}
	return publish(raw.Path(), host.Header(), m.set, stdout)
}

// newHouse builds sluice and starts what all contenders need. cleanUp stops it
// and removes its files.
func newHouse(ctx context.Context, o options) (h *house, cleanUp func() error, err error) {
	dir, err := os.MkdirTemp("", "sluice-gateway-")
	if err != nil {
		return nil, nil, err
	}
	cleanUp = func() error { return os.RemoveAll(dir) }
	fail := func(err error) (*house, func() error, error) { return nil, nil, errors.Join(err, cleanUp()) }
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nginx reads its files as another user
		return fail(err)
	}
	h = &house{dir: dir, before: o.before, sluice: filepath.Join(dir, "sluice"), traefik: o.traefik}
	if h.self, err = os.Executable(); err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", h.sluice, "./cmd/sluice")
	cmd.Dir = "../server"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("building sluice: %w\n%s", err, out))
	}
	up, err := startUpstream(ctx, h)
	if err != nil {
		return fail(err)
	}
	return h, func() error { return errors.Join(up.stop(), os.RemoveAll(dir)) }, nil
}

// publish writes the tables to stdout and beside the raw results.
func publish(path, header string, set report.Set, stdout io.Writer) (err error) {
	w := stdout
	if path != "" {
		f, createErr := os.Create(path + ".md")
		if createErr != nil {
			return createErr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = io.MultiWriter(stdout, f)
	}
	return writeTables(w, header, set)
}
