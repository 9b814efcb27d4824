// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sampledlog logs what fails under attack or in an outage, which then
// fails for as many requests as come.
package sampledlog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log lets one warning a second through and says how many it has not written.
// Logger and Part must be set before use. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger
	Part   string // which part of the program speaks

	mu      sync.Mutex
	next    time.Time
	skipped int
}

// Warn logs err as the reason of problem, unless another was logged within the
// last second.
func (l *Log) Warn(ctx context.Context, problem string, err error) {
	now := time.Now()
	l.mu.Lock()
	quiet := now.Before(l.next)
	skipped := l.skipped
	if quiet {
		l.skipped++
	} else {
		l.skipped, l.next = 0, now.Add(time.Second)
	}
	l.mu.Unlock()
	if !quiet {
		l.Logger.LogAttrs(ctx, slog.LevelWarn, "failed",
			slog.String("part", l.Part), slog.String("problem", problem), slog.Any("error", err), slog.Int("unreported", skipped))
	}
}
