// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

const (
	fullLookEvery = 10 * time.Second
	fullLogEvery  = time.Minute
)

// fullLog tells that a store in this process has no room left for the keys that
// come, at most once in a while. It has one goroutine, which close ends.
type fullLog struct {
	stats   func() memstore.Stats
	maxKeys int64
	log     *slog.Logger

	told uint64 // Evicted when it was told last
	next time.Time

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// watchFull starts a fullLog. If maxKeys is 0 it is the default.
func watchFull(stats func() memstore.Stats, maxKeys int64, log *slog.Logger) *fullLog {
	if maxKeys == 0 {
		maxKeys = memstore.DefaultMaxKeys
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &fullLog{stats: stats, maxKeys: maxKeys, log: log, stop: stop}
	l.ended.Go(func() {
		ticks := time.NewTicker(fullLookEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				l.look(time.Now())
			}
		}
	})
	return l
}

// look writes a line if living keys have been forgotten since the last.
func (l *fullLog) look(now time.Time) {
	if now.Before(l.next) {
		return
	}
	evicted := l.stats().Evicted
	if evicted == l.told {
		return
	}
	l.log.Warn("memory full: keys are forgotten that are not denied; raise max_keys, or see \"When memory is full\" in docs/operating.md",
		slog.Uint64("forgotten", evicted-l.told), slog.Int64("max_keys", l.maxKeys))
	l.told, l.next = evicted, now.Add(fullLogEvery)
}

// close ends the goroutine. It may be called of nil.
func (l *fullLog) close() {
	if l == nil {
		return
	}
	l.stop()
	l.ended.Wait()
}
