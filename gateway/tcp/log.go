// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sampledLog lets one line a second through: what fails under attack fails for
// as many connections as come.
type sampledLog struct {
	log *slog.Logger

	mu      sync.Mutex
	next    time.Time
	skipped int
}

func (l *sampledLog) warn(ctx context.Context, what string, err error) {
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
		l.log.LogAttrs(ctx, slog.LevelWarn, "tcp front", slog.String("what", what), slog.Any("error", err), slog.Int("unreported", skipped))
	}
}
