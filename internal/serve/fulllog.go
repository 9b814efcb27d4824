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

// logFull reports until ctx ends that a store in this process has no room left for
// the keys that come, at most once in a while. It looks at intervals. If maxKeys is 0 it
// is the default.
func logFull(ctx context.Context, stats func() memstore.Stats, maxKeys int64, every time.Duration, log *slog.Logger) {
	if maxKeys == 0 {
		maxKeys = bounds.DefaultMaxKeys
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var reported uint64 // Evicted, last
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
			log.Warn("memory full: keys are forgotten that are not denied; raise max_keys, or see \"When memory is full\" in docs/operating.md",
				slog.Uint64("forgotten", evicted-reported), slog.Int64("max_keys", maxKeys))
			reported, next = evicted, now.Add(fullLogEvery)
		}
	}
}
