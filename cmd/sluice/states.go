// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/server/metrics"
)

// states is the store that a configuration names, in this process or shared.
type states struct {
	store  sluice.Store
	slots  sluice.SlotStore
	report func(*http.Request, error)
	memory *memstore.Store // nil if shared
	shared *shared         // nil if in this process
	full   *fullLog        // of the memory
	file   string          // of the memory's state; empty: none
}

// openStates opens the store and restores the state of one in this process.
func openStates(c file.Store, now func() time.Time, of *site, m *metrics.Metrics, log *slog.Logger) (*states, error) {
	if c.Redis != "" {
		target, err := redisurl.Parse(c.Redis, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		sh, err := openShared(sharedConfig{
			target: target, prefix: c.Prefix, policyOf: of.failureOf, refuses: of.refusesAll, slotsOf: of.failureOfScope, leaseOf: of.leaseOf,
		}, log)
		if err != nil {
			return nil, err
		}
		m.WatchShared(sh.store.Stats, sh.denials.Stats)
		m.WatchLeases(sh.leases.Stats)
		return &states{store: sh.store, slots: sh.store, report: sh.report, shared: sh}, nil
	}
	s := &states{memory: memstore.New(memstore.Options{MaxKeys: int(c.MaxKeys), Now: now}), file: c.State}
	s.store, s.slots = s.memory, s.memory
	s.report = (&errorLog{log: log}).report
	m.WatchMemory(s.memory.Stats)
	if s.file == "" {
		s.full = watchFull(s.memory.Stats, c.MaxKeys, log)
		return s, nil
	}
	found, err := restoreState(s.memory, s.file)
	if err != nil {
		return nil, err
	}
	log.Info("state", slog.String("file", s.file), slog.Bool("found", found), slog.Int("states", s.memory.Stats().States))
	s.full = watchFull(s.memory.Stats, c.MaxKeys, log)
	return s, nil
}

// ready says how the store is, and whether traffic may come.
func (s *states) ready() (line string, ok bool) {
	if s.shared == nil {
		return "store: in this process", true
	}
	return s.shared.ready()
}

// save writes the state of a store in this process, if it has a file.
func (s *states) save() error {
	if s.memory == nil || s.file == "" {
		return nil
	}
	return saveState(s.memory, s.file)
}

func (s *states) close() error {
	s.full.close()
	if s.shared == nil {
		return nil
	}
	return s.shared.Close()
}

// Slot is of [sluice.SlotStore].
func (l late) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if r := l.redis.Load(); r != nil {
		return r.Slot(ctx, req)
	}
	return sluice.SlotDecision{}, errNotConnected
}

// errorLog lets one line a second through.
type errorLog struct {
	log *slog.Logger

	mu      sync.Mutex
	next    time.Time
	skipped int
}

func (l *errorLog) report(_ *http.Request, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return
	}
	l.log.Warn("a request could not be decided, or settled, as it should be", slog.Any("error", err), slog.Int("unreported", l.skipped))
	l.next, l.skipped = now.Add(time.Second), 0
}
