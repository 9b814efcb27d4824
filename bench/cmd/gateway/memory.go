// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	changes = 3               // of the group memory
	settles = 2 * time.Second // what a reload needed goes back to the system behind the log's line
)

// memory starts programs with many rules, changes their files and looks at their memory
// after the start and after each change.
func (m *measurer) memory(ctx context.Context) error {
	return m.rounds("Memory", func(round int) error {
		return m.withRules(ctx, mostRules, func(all []reloading) error {
			for _, p := range all {
				if err := m.memoryRound(ctx, p, round); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (m *measurer) memoryRound(ctx context.Context, p reloading, round int) error {
	var values []any
	most := 0.0
	for i := range changes + 1 {
		if i > 0 {
			if err := writeNext(p.file, i, rulesFile(mostRules, p.address, m.house.upstream, i)); err != nil {
				return err
			}
			if _, err := reloadOnce(p.process, p.file, i); err != nil {
				return err
			}
		}
		select {
		case <-time.After(settles):
		case <-p.done:
			return fmt.Errorf("%s ended; it said:\n%s", p.who, p.said)
		case <-ctx.Done():
			return ctx.Err()
		}
		rss, err := residentMemory(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		most = max(most, rss)
		values = append(values, rss, fmt.Sprintf("rss-%d-MB", i))
	}
	return m.keep(round, "Memory", p.who, 1, append(values, most, "rss-MB")...)
}
