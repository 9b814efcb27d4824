// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sampledLog lets one line a second through: an upstream that is down fails as
// many requests as come.
type sampledLog struct {
	log *slog.Logger

	mu      sync.Mutex
	next    time.Time
	skipped int
}

func (l *sampledLog) warn(ctx context.Context, problem string, err error) {
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
		l.log.LogAttrs(ctx, slog.LevelWarn, "gateway", slog.String("problem", problem), slog.Any("error", err), slog.Int("unreported", skipped))
	}
}
