// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// HeartbeatScope is the scope in which the nodes count themselves.
const HeartbeatScope = "sluice.nodes"

// HeartbeatLimit is how the nodes of a fleet count themselves: each holds a slot of
// HeartbeatScope.
var HeartbeatLimit = sluice.SlotLimit{Name: "alive", Cap: bounds.MaxSlots, TTL: heartbeatTTL}

// run reports that this node lives, has keys counted as by the other nodes, and logs,
// until ctx ends.
func (s *Store) run(ctx context.Context) {
	defer close(s.ended)
	looks := time.NewTicker(s.o.Every)
	defer looks.Stop()
	beats := time.NewTicker(s.o.Beat)
	defer beats.Stop()
	connected := s.redis.Err() == nil
	l := outageLog{Store: s, up: connected}
	if !connected {
		l.explained = rueidisstore.Answered(l.lastFailure())
		l.log.Warn("the store is unavailable at the start", l.attr(), slog.String("cause", l.cause()), slog.String("meanwhile", l.Meanwhile()), l.since())
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
func (s *Store) meet(ctx context.Context) {
	s.alive(ctx, s.heartbeat)
	s.shareSecret(ctx)
}

// shareSecret has keys counted under the secret that the nodes of the store share.
// Until that is known they count under one of this process. It is asked for with each
// beat, as a server may lose it.
func (s *Store) shareSecret(ctx context.Context) {
	if s.redis.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	secret, err := s.redis.HashSecret(ctx)
	switch {
	case err == nil:
		s.fault = ""
		s.o.Secret(secret)
	case !rueidisstore.Temporary(err) && s.store.Err() == nil && err.Error() != s.fault: // an outage is reported elsewhere
		s.fault = err.Error()
		s.Report(ctx, err)
	}
}

// alive calls f with the slots by which the nodes of a fleet count themselves.
func (s *Store) alive(ctx context.Context, f func(context.Context, *sluice.Slots)) {
	if s.redis.Err() != nil {
		s.census.missed = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	slots, err := sluice.NewSlots(s.redis, HeartbeatScope, HeartbeatLimit)
	if err != nil {
		s.Report(ctx, err)
		return
	}
	f(ctx, slots)
}

// heartbeat reports that this node lives and learns how many do. If it fails the last
// number stays.
func (s *Store) heartbeat(ctx context.Context, slots *sluice.Slots) {
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
func (s *Store) leave(ctx context.Context, slots *sluice.Slots) {
	_, _ = slots.Release(ctx, "", s.id)
}
