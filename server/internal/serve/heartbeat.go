// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

const heartbeatScope = "sluice.nodes"

// heartbeatLimit is how the nodes of a fleet count themselves: each holds a slot of
// heartbeatScope.
var heartbeatLimit = sluice.SlotLimit{Name: "alive", Cap: bounds.MaxSlots, TTL: heartbeatTTL}

// run reports that this node lives, has keys counted as by the other nodes, and logs,
// until ctx ends.
func (s *sharedStore) run(ctx context.Context) {
	defer close(s.ended)
	looks := time.NewTicker(s.every.Store)
	defer looks.Stop()
	beats := time.NewTicker(s.every.Heartbeat)
	defer beats.Stop()
	connected := s.redis.Err() == nil
	l := outageLog{sharedStore: s, up: connected}
	if !connected {
		l.explained = rueidisstore.Answered(l.lastFailure())
		l.log.Warn("the store is unavailable at the start", l.attr(), slog.String("cause", l.cause()), slog.String("meanwhile", l.meanwhile()), l.since())
		l.alone()
	}
	s.meet(ctx)
	for {
		select {
		case <-ctx.Done():
			s.giveBack(context.WithoutCancel(ctx))
			s.alive(context.WithoutCancel(ctx), s.leave)
			return
		case <-looks.C:
			if !connected && s.redis.Err() == nil {
				connected = true
				s.meet(ctx)
			}
			l.look()
		case <-beats.C:
			s.meet(ctx)
		case <-s.change:
			l.look()
		case err := <-s.errors:
			l.failed(err)
		}
	}
}

// meet is what a node does with the others, at first and with each beat.
func (s *sharedStore) meet(ctx context.Context) {
	s.alive(ctx, s.heartbeat)
	s.shareSecret(ctx)
}

// shareSecret has keys counted under the secret that the nodes of the store share.
// Until that is known they count under one of this process. It is asked for with each
// beat, as a server may lose it.
func (s *sharedStore) shareSecret(ctx context.Context) {
	if s.redis.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	secret, err := s.redis.HashSecret(ctx)
	switch {
	case err == nil:
		s.fault = ""
		s.of.tally.Share(secret)
	case !rueidisstore.Temporary(err) && s.store.Err() == nil && err.Error() != s.fault: // an outage is reported elsewhere
		s.fault = err.Error()
		s.report(nil, err)
	}
}

// alive calls f with the slots by which the nodes of a fleet count themselves.
func (s *sharedStore) alive(ctx context.Context, f func(context.Context, *sluice.Slots)) {
	if s.redis.Err() != nil {
		s.census.missed = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	slots, err := sluice.NewSlots(s.redis, heartbeatScope, heartbeatLimit)
	if err != nil {
		s.report(nil, err)
		return
	}
	f(ctx, slots)
}

// heartbeat reports that this node lives and learns how many do. If it fails the last
// number stays.
func (s *sharedStore) heartbeat(ctx context.Context, slots *sluice.Slots) {
	d, err := slots.Acquire(ctx, "", s.id, 1)
	if err != nil || d.Held <= 0 {
		s.census.missed = true
		return
	}
	s.nodes.Store(d.Held)
	s.most.Store(s.census.heard(d.Held, time.Now()))
}

// census is among how many nodes limits are divided in an outage: the most that were heard of
// in [heartbeatTTL]. Behind an outage the nodes come back one by one, each with the next beat,
// so the number from before holds as long again.
type census struct {
	most   int64
	until  time.Time
	missed bool // no beat has arrived since
}

func (c *census) heard(n int64, now time.Time) int64 {
	if c.missed {
		c.missed, c.until = false, now.Add(heartbeatTTL)
	}
	if n >= c.most || now.After(c.until) {
		c.most, c.until = n, now.Add(heartbeatTTL)
	}
	return c.most
}

// leave reports that this node is gone. If that is lost its slot expires.
func (s *sharedStore) leave(ctx context.Context, slots *sluice.Slots) {
	_, _ = slots.Release(ctx, "", s.id)
}

// outageLog writes the changes of the store's state, and errors, each at most
// once in logEvery: a store that comes and goes floods nothing. A change that
// had to wait is reported later, if it is still one.
type outageLog struct {
	*sharedStore
	up               bool // as last reported
	explained        bool // a server has said why it is not
	reported, warned time.Time
	unsaid           int    // errors since warned
	outages          uint64 // as last reported
	over             uint64 // of these, before the store was last reported as available
}

func (l *outageLog) look() {
	l.awaySince()
	stats := l.store.Stats()
	up := l.redis.Err() == nil && stats.Healthy
	if up == l.up && stats.Outages == l.outages {
		l.explain()
		return
	}
	if time.Since(l.reported) < logEvery {
		return
	}
	if up {
		l.log.Info("the store is available again", l.attr(), slog.Uint64("outages", max(stats.Outages-l.over, 1)))
		l.over = stats.Outages
	} else {
		l.explained = rueidisstore.Answered(l.lastFailure())
		l.log.Warn("the store is unavailable", l.attr(), slog.Uint64("outages", max(stats.Outages-l.outages, 1)), slog.String("cause", l.cause()),
			slog.String("meanwhile", l.meanwhile()), l.since())
		l.alone()
	}
	l.fleet.Poke() // which may have to connect anew
	l.up, l.reported, l.outages = up, time.Now(), stats.Outages
}

// since says since when what is not applied to requests that pass, if anything is.
func (l *outageLog) since() slog.Attr {
	what, since := l.notApplied()
	if what == "" {
		return slog.Attr{}
	}
	return slog.Time(strings.ReplaceAll(what, " ", "_")+"_not_applied_since", since)
}

// alone warns that limits are divided by what the configuration says, as this node has seen no
// others.
func (l *outageLog) alone() {
	if l.nodes.Load() == 0 && slices.Contains(l.of.failures(), sluice.FailLocal) {
		l.log.Warn("this node has never reached the store, and does not know how many share it: limits of failure: local are divided by nodes of the configuration",
			l.attr(), slog.Int("nodes", l.divisor()))
	}
}

// explain shows what a server says is wrong with it where that was not known when
// it was reported unavailable: once in an outage.
func (l *outageLog) explain() {
	if l.up || l.explained || !rueidisstore.Answered(l.lastFailure()) {
		return
	}
	l.explained = true
	l.log.Warn("the store is unavailable: its cause has changed", l.attr(), slog.String("cause", l.cause()))
}

func (l *outageLog) failed(err error) {
	if time.Since(l.warned) < logEvery {
		l.unsaid++
		return
	}
	l.log.Warn("the store failed", l.attr(), slog.Any("error", err), slog.Int("errors_not_logged", l.unsaid))
	l.warned, l.unsaid = time.Now(), 0
}
