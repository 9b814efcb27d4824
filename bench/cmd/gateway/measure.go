// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluicegate/sluice/bench/record"
	"github.com/sluicegate/sluice/bench/report"
)

// measurer takes turns and gathers what they measure.
type measurer struct {
	options
	house    *house
	raw      *record.Record
	progress io.Writer
	set      report.Set
}

func (m *measurer) all(ctx context.Context) error {
	for _, group := range m.groups {
		var err error
		switch group {
		case "proxy":
			err = m.saturated(ctx, "Proxy", proxies(m.house), 0)
		case "denied":
			err = m.saturated(ctx, "Denied", denied(m.house), 1)
		case "handlers":
			err = m.handlers(ctx)
		case "logs":
			err = m.saturated(ctx, "Logs", logging(m.house), 0)
		case "lines":
			err = m.lines(ctx)
		case "latency":
			err = m.latency(ctx)
		case "reload":
			err = m.reload(ctx)
		case "memory":
			err = m.memory(ctx)
		case "checks":
			err = m.checks(ctx)
		case "fronts":
			err = m.fronts(ctx)
		case "soak":
			err = m.soak(ctx)
		case "attacks":
			err = m.attacks(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
	}
	return nil
}

// together runs contenders at the same time: one that is not asked costs
// nothing. It stops them when f returns.
func (m *measurer) together(ctx context.Context, of []contender, f func([]*process) error) (err error) {
	var running []*process
	defer func() {
		for _, p := range running {
			err = errors.Join(err, p.stop())
		}
	}()
	for _, c := range of {
		address, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		p, err := c.start(ctx, m.house, address)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		running = append(running, p)
	}
	return f(running)
}

// saturated presses contenders in turns. Those behind the first so many answer requests
// by denying them.
func (m *measurer) saturated(ctx context.Context, bench string, of []contender, answering int) error {
	return m.together(ctx, of, func(running []*process) error {
		if _, err := saturate(ctx, running, 2*slice); err != nil { // connections are made, heaps grow
			return err
		}
		return m.rounds(bench, func(round int) error {
			all, err := saturate(ctx, running, m.length)
			if err != nil {
				return err
			}
			for i, s := range all {
				wrong := s.wrong
				if bench == "Denied" && i >= answering {
					wrong = s.requests - s.wrong
				}
				if wrong > 0 {
					return fmt.Errorf("%s: %d of %d answers have the wrong status", of[i].name, wrong, s.requests)
				}
				err := m.keep(round, bench, of[i].name, s.requests,
					s.perSecond, "req/s", float64(s.cpu.Nanoseconds())/1000, "cpu-µs/req", float64(time.Second)/float64(s.cpu), "req/cpu-s")
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// latency asks those that differ by the limits alone, and the upstream.
func (m *measurer) latency(ctx context.Context) error {
	var of []contender
	for _, c := range proxies(m.house) {
		if c.name == "reverseproxy" || c.name == "unlimited" || strings.HasPrefix(c.name, "sluice") || strings.HasPrefix(c.name, "before") {
			of = append(of, c)
		}
	}
	return m.together(ctx, of, func(running []*process) error {
		return m.rounds("Latency", func(round int) error {
			for _, n := range []int{1, 4} {
				all, err := inTurns(ctx, running, n, m.length)
				if err != nil {
					return err
				}
				for i, took := range all {
					err := m.keep(round, fmt.Sprintf("Latency/connections=%d", n), of[i].name, len(took),
						micro(quantile(took, 0.5)), "p50-µs", micro(quantile(took, 0.9)), "p90-µs", micro(quantile(took, 0.99)), "p99-µs")
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func (m *measurer) rounds(what string, f func(round int) error) error {
	began := time.Now()
	for round := 1; round <= m.options.rounds; round++ {
		if err := m.raw.Round(round); err != nil {
			return err
		}
		if err := f(round); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(m.progress, "%s: round %d of %d, %v\n", what, round, m.options.rounds, time.Since(began).Round(time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// keep writes a result as a benchmark of Go would: values are a number and its
// unit in turns.
func (m *measurer) keep(round int, bench, who string, n int, values ...any) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s/who=%s %d", bench, who, n)
	for i := 0; i+1 < len(values); i += 2 {
		fmt.Fprintf(&b, " %.5g %s", values[i], values[i+1])
	}
	b.WriteByte('\n')
	samples, err := report.Parse(strings.NewReader(b.String()), round)
	if err != nil {
		return err
	}
	m.set = append(m.set, samples...)
	return m.raw.Write([]byte(b.String()), "")
}
