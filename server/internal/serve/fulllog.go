// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/memstore"
)

const fullLogEvery = time.Minute

// logFull logs that a store in this process evicts keys, at most once each fullLogEvery. It
// checks at intervals of every and returns when ctx ends. A maxKeys of 0 means the default.
func logFull(ctx context.Context, stats func() memstore.Stats, maxKeys int64, every time.Duration, log *slog.Logger) {
	if maxKeys == 0 {
		maxKeys = bounds.DefaultMaxKeys
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var reported uint64 // the last Evicted
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			evicted := stats().Evicted
			if now.Before(next) || evicted == reported {
				continue
			}
			log.Warn("memory full: keys that are not denied are evicted; raise max_keys, or see \"When memory is full\" in docs/operating.md",
				slog.Uint64("forgotten", evicted-reported), slog.Int64("max_keys", maxKeys))
			reported, next = evicted, now.Add(fullLogEvery)
		}
	}
}
