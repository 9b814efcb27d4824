// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/server/internal/sharedstore"
)

// store is the store of a configuration, in this process or shared.
type store struct {
	store  sluice.Store
	report func(context.Context, error)
	memory *memstore.Store    // nil if shared
	shared *sharedstore.Store // nil if in this process
	file   string             // of the memory's state; empty if not saved
	stop   context.CancelFunc
	ended  sync.WaitGroup // of logFull
}

// openStore opens the store and restores the state of one in this process.
func openStore(c config.Store, of *runtime, now func() time.Time, every Intervals) (*store, error) {
	if c.Redis != "" {
		target, err := redisurl.ParseLine(c.Redis, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		target.Timeout = cmp.Or(every.Call, target.Timeout)
		sh, err := sharedstore.Open(sharedstore.Options{
			Target: target, Prefix: c.Prefix, Config: of.active, Log: of.log, Every: every.Store, Beat: every.Heartbeat, Fleet: every.Fleet,
			WatchLocal: func(stats func() memstore.Stats) error { return of.counts.WatchMemory(stats, "local") },
			Secret:     of.tally.Share,
		})
		if err != nil {
			return nil, err
		}
		s := &store{store: sh.Decisions(), report: sh.Report, shared: sh}
		return s, of.counts.WatchShared(sh.Decisions().Stats, s.name())
	}
	memory := memstore.New(memstore.Options{MaxKeys: int(c.MaxKeys), Now: now})
	failed := &sampledlog.Log{Logger: of.log, Part: "store"}
	s := &store{
		store: memory, memory: memory, file: c.State,
		report: func(ctx context.Context, err error) {
			failed.Warn(ctx, "a request was not decided or settled by its limits", err)
		},
	}
	if err := of.counts.WatchMemory(memory.Stats, s.name()); err != nil {
		return nil, err
	}
	if s.file != "" {
		found, err := restoreState(memory, s.file)
		if err != nil {
			return nil, err
		}
		of.log.Info("state", slog.String("file", s.file), slog.Bool("found", found), slog.Int("states", memory.Stats().States))
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() { logFull(ctx, memory.Stats, c.MaxKeys, every.Memory, of.log) })
	return s, nil
}

// name returns the store's name in metrics.
func (s *store) name() string {
	if s.shared != nil {
		return "redis"
	}
	return "memory"
}

// ready returns the state of the store, and whether the node is ready for traffic.
func (s *store) ready() (line string, ok bool) {
	if s.shared == nil {
		return "store: in this process", true
	}
	return s.shared.Ready()
}

// save writes the state of a store in this process, if it has a file.
func (s *store) save() error {
	if s.memory == nil || s.file == "" {
		return nil
	}
	return saveState(s.memory, s.file)
}

func (s *store) close() error {
	if s.shared != nil {
		return s.shared.Close()
	}
	s.stop()
	s.ended.Wait()
	return nil
}
