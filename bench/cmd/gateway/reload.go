// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	manyRules   = 10_000
	mostRules   = 20_000 // of the group memory
	reloads     = 6      // in one round
	between     = time.Second
	reloadLimit = 30 * time.Second
	activated   = "a new configuration is " // active
)

// reloading is a program whose file changes.
type reloading struct {
	who, file string
	*process
}

// reload activates a file of many rules again and again while requests come
// at a steady rate, and compares those that are sent meanwhile with those of a time
// in which nothing changes.
func (m *measurer) reload(ctx context.Context) error {
	bench := "Reload"
	if m.neighbour {
		bench += "/neighbour=busy"
		busy, err := launch(ctx, "", m.house.self, "-role", busyRole)
		if err != nil {
			return err
		}
		defer func() { _ = busy.stop() }() // it has nothing to lose
	}
	return m.withRules(ctx, manyRules, func(all []reloading) error {
		return m.rounds(bench, func(round int) error {
			for _, p := range all {
				if err := m.reloadRound(ctx, bench, p, round); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// withRules runs the programs to compare, each with a file of so many rules, and
// stops them when f returns.
func (m *measurer) withRules(ctx context.Context, n int, f func([]reloading) error) (err error) {
	var all []reloading
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.stop())
		}
	}()
	for who, program := range map[string]string{"sluice.config": m.house.sluice, "before.config": m.house.before} {
		if program == "" {
			continue
		}
		address, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		file := filepath.Join(m.house.dir, who+".many.yaml")
		if err := replaceFile(file, rulesFile(n, address, m.house.upstream, 0)); err != nil {
			return err
		}
		p, err := start(ctx, address, program, "serve", "--config", file)
		if err != nil {
			return err
		}
		all = append(all, reloading{who, file, p})
	}
	return f(all)
}

func (m *measurer) reloadRound(ctx context.Context, bench string, program reloading, round int) error {
	p := program.process
	for i := range reloads {
		if err := writeNext(program.file, i, rulesFile(manyRules, p.address, m.house.upstream, round*reloads+i)); err != nil {
			return err
		}
	}
	quiet, quietCPU, err := m.measured(ctx, p, func() error {
		time.Sleep((reloads + 1) * between)
		return nil
	})
	if err != nil {
		return err
	}
	var times []span
	busy, busyCPU, err := m.measured(ctx, p, func() error {
		time.Sleep(between)
		for i := range reloads {
			s, err := reloadOnce(p, program.file, i)
			if err != nil {
				return err
			}
			times = append(times, s)
			time.Sleep(between - s.end.Sub(s.begin))
		}
		return nil
	})
	if err != nil {
		return err
	}
	during := func(t timed) bool {
		return slices.ContainsFunc(times, func(s span) bool { return !t.at.Before(s.begin) && t.at.Before(s.end) })
	}
	without, within := tooks(quiet, func(timed) bool { return true }), tooks(busy, during)
	lengths := make([]time.Duration, len(times))
	for i, s := range times {
		lengths[i] = s.end.Sub(s.begin)
	}
	slices.Sort(lengths)
	return m.keep(round, bench, program.who, len(within),
		micro(quantile(lengths, 0.5))/1000, "ms", micro(slices.Max(lengths))/1000, "max-ms",
		micro((busyCPU-quietCPU)/reloads)/1000, "cpu-ms",
		micro(quantile(without, 0.5)), "p50-µs", micro(quantile(within, 0.5)), "p50-during-µs",
		micro(quantile(without, 0.99)), "p99-µs", micro(quantile(within, 0.99)), "p99-during-µs",
		float64(quantile(within, 0.99))/float64(quantile(without, 0.99)), "p99-during/without")
}

type span struct{ begin, end time.Time }

// measured sends requests while f runs.
func (m *measurer) measured(ctx context.Context, p *process, f func() error) (sent []timed, used time.Duration, err error) {
	before, err := p.cpu()
	if err != nil {
		return nil, 0, err
	}
	paced := pace(ctx, p.address, "/v1/service500/77/items", 8, m.rate, nil)
	err = f()
	sent, stopErr := paced.stop()
	after, cpuErr := p.cpu()
	return sent, after - before, errors.Join(err, stopErr, cpuErr)
}

// reloadOnce puts the i-th file that writeNext has written in place of a program's, and has
// it read.
func reloadOnce(p *process, name string, i int) (s span, err error) {
	if err := os.Rename(nextName(name, i), name); err != nil {
		return s, err
	}
	came := p.said.await(activated)
	s.begin = time.Now()
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		return s, err
	}
	select {
	case s.end = <-came:
		return s, nil
	case <-time.After(reloadLimit):
		return s, fmt.Errorf("the new file is not active after %v:\n%s", reloadLimit, p.said)
	}
}

func tooks(all []timed, which func(timed) bool) []time.Duration {
	var some []time.Duration
	for _, t := range all {
		if which(t) {
			some = append(some, t.took)
		}
	}
	slices.Sort(some)
	return some
}

// writeNext writes beside a file what is to take its place as the i-th: ahead of what is
// measured, as the clients are in this program, and wait for it while it makes much text.
func writeNext(name string, i int, text string) error {
	return os.WriteFile(nextName(name, i), []byte(text), 0o600)
}

func nextName(name string, i int) string { return fmt.Sprintf("%s.%d", name, i) }

// replaceFile puts a file in place of another as a whole.
func replaceFile(name, text string) error {
	if err := writeNext(name, 0, text); err != nil {
		return err
	}
	return os.Rename(nextName(name, 0), name)
}

// rulesFile is a file of many rules that differ in path, host, header and
// network, and from version to version in their quotas.
func rulesFile(n int, address, upstream string, version int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nadmin: \"off\"\nupstream: http://%s\nrules:\n", address, upstream)
	for i := range n {
		var match string
		switch i % 5 {
		case 0:
			match = fmt.Sprintf("path: \"/v1/service%d/{id}/items\"", i)
		case 1:
			match = fmt.Sprintf("path: /v1/service%d/", i)
		case 2:
			match = fmt.Sprintf("host: tenant%d.example.com, path: /v1/", i)
		case 3:
			match = fmt.Sprintf("header: {X-Partner: partner%d}", i)
		case 4:
			match = fmt.Sprintf("network: 10.%d.%d.0/24", i>>8, i&0xff)
		}
		fmt.Fprintf(&b, "  - name: rule%d\n    match: {method: [GET, POST], %s}\n    by: ip\n    limits: %d/s\n", i, match, 1_000_000+version)
	}
	return b.String()
}
