// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command fleet puts nginx in front of three sluice processes, sends 1,001
// requests of one user under a limit of 1,000 in 60 s, and prints how many
// pass: with a Redis that all share, with a node that is killed and restarted
// in the middle, and with sticky sessions in place of a shared store.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
)

func main() {
	store := flag.String("store", "", "URL of a store that is there already, such as redis-cluster://127.0.0.1:7000; empty starts a Redis")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *store, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// run plays everything through and prints the table.
func run(ctx context.Context, store string, to io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, os.RemoveAll(dir)) }()
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if store == "" {
		redis, url, err := startRedis(ctx, dir)
		if err != nil {
			return err
		}
		defer redis.kill()
		store = url
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "fleet of three\tasked\tpassed\tdenied\tfailed\tpassed by"); err != nil {
		return err
	}
	all := [nodes]string{program, program, program}
	for _, s := range scenarios {
		url := store
		if s.conf == &sameNode {
			url = ""
		}
		f, err := startFleet(ctx, dir, *s.conf, url, all)
		if err != nil {
			return err
		}
		got, err := s.play(ctx, f, userOf(s.name))
		f.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if _, err := fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\n", s.name,
			got.passed+got.denied+got.failed, got.passed, got.denied, got.failed, len(got.by)); err != nil {
			return err
		}
	}
	return table.Flush()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
