// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
)

// series is the knowledge of this process about limits of one scope and name.
type series struct {
	first     uint64        // the ID of the limit that was met first
	metOthers atomic.Bool   // whether others were met too
	met       atomic.Int64  // the instant of the first decision, 0 if there was none
	start     atomic.Int64  // the start of the rule, 0 if it is not known yet
	renewed   atomic.Int64  // the last renewal of start on the server, by this machine's clock
	asking    chan struct{} // has room for one caller, which asks for the start
}

// seriesKept is the maximum number of series. A process that makes more drops all and
// learns them again.
const seriesKept = 1 << 16

// allSeries are the series of a Store. The zero value is ready to use.
type allSeries struct {
	mu    sync.Mutex
	known map[uint64]*series
	age   atomic.Int64 // number of times that all were dropped
}

// of returns the series of t and records that t was met.
func (a *allSeries) of(t *sluice.Term) *series {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= seriesKept {
		a.known = make(map[uint64]*series)
		a.age.Add(1)
	}
	r := a.known[t.Series]
	if r == nil {
		r = &series{first: t.ID, asking: make(chan struct{}, 1)}
		a.known[t.Series] = r
	}
	if r.first != t.ID {
		r.metOthers.Store(true)
	}
	return r
}

// decided records a decision at an instant of the server's clock.
func (r *series) decided(now int64) {
	if r.met.Load() == 0 {
		r.met.CompareAndSwap(0, max(now, 1))
	}
}

// withholds reports whether a limit admits less at the start of its rule.
func withholds(t *sluice.Term) bool { return t.InitialDeficit > 0 || t.PreFilled }

// sight returns the instant until which a limit depends on the start of its rule.
func (r *series) sight(t *sluice.Term) int64 {
	start := r.start.Load()
	switch {
	case !withholds(t):
		return 0
	case t.PreFilled:
		return start - start%t.Sub + int64(t.Behind)*t.Sub
	case t.Kind == compiled.FixedWindow:
		return firstWindowEnd(t, start)
	case t.Refill != sluice.Continuous:
		return start + (t.InitialDeficit+t.Quota-1)/t.Quota*t.Micros
	}
	return start + t.Rate.Times(t.InitialDeficit).Ceil()
}

// firstWindowEnd returns the end of the window in which a rule of t started. Until then a
// fixed window withholds units.
func firstWindowEnd(t *sluice.Term, start int64) int64 {
	if t.Calendar != sluice.NoCalendar {
		_, end := algo.CalendarWindow(t, start)
		return end
	}
	return start - start%t.Micros + t.Micros
}

// A rule's start is kept on the server, in a key that stays as long as the rule is used at
// least once a year. A process reads it once, and then once a day.
const (
	startLife  = 400 * 24 * time.Hour
	startRenew = 24 * time.Hour
)

// startOf returns the start of the rule of a limit: the first use of a limit of its scope
// and name. now is the server's instant. A start after now is from before the server's
// clock stepped back, and is replaced by now.
func (s *Store) startOf(ctx context.Context, it *item, now int64) (int64, error) {
	r := it.series
	if start := r.start.Load(); start <= now && !r.stale(s.clock()) {
		return start, nil
	}
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	known := r.start.Load()
	if known <= now && !r.stale(s.clock()) {
		return known, nil
	}
	start := max(now, 1)
	for _, seen := range []int64{known, r.met.Load()} {
		if seen > 0 {
			start = min(start, seen)
		}
	}
	start, err := s.recordStart(ctx, it, start)
	if err != nil {
		return 0, err
	}
	r.start.Store(start)
	r.renewed.Store(s.clock().UnixMicro())
	return start, nil
}

// stale reports whether the start is unknown or must be renewed on the server.
func (r *series) stale(now time.Time) bool {
	if r.start.Load() == 0 {
		return true
	}
	d := now.UnixMicro() - r.renewed.Load()
	return d < 0 || d > startRenew.Microseconds()
}

// recordStart records a start unless the server has an earlier one, and returns the
// earlier of the two.
func (s *Store) recordStart(ctx context.Context, it *item, start int64) (int64, error) {
	inv := newInvocation(s.programs.start, []string{s.keyer.start(it.scope, it.term.Name)},
		strconv.FormatInt(start, 10), strconv.FormatInt(startLife.Milliseconds(), 10))
	res := inv.do(ctx, s)
	found, err := res.text()
	if err != nil {
		return 0, err
	}
	if found == "" {
		s.options.Logger.LogAttrs(ctx, slog.LevelInfo, "the server had no start of a rule: its initial deficit counts from now",
			slog.String("scope", it.scope), slog.String("limit", it.term.Name), slog.Time("start", time.UnixMicro(start)))
		return start, nil
	}
	recorded, err := strconv.ParseInt(found, 10, 64)
	if err != nil {
		return 0, errState
	}
	return min(max(recorded, 1), start), nil
}
