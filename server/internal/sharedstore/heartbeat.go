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

// HeartbeatLimit is the limit by which the nodes of a fleet count themselves: each holds a
// slot of HeartbeatScope.
var HeartbeatLimit = sluice.SlotLimit{Name: "alive", Cap: bounds.MaxSlots, TTL: heartbeatTTL}

// run sends heartbeats, shares the secret that hashes keys, and writes the log, until ctx
// ends.
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

// meet sends a heartbeat and shares the secret.
func (s *Store) meet(ctx context.Context) {
	s.alive(ctx, s.heartbeat)
	s.shareSecret(ctx)
}

// shareSecret passes the secret that the nodes share to Options.Secret. It reads the secret
// with each beat, as a server may lose it. Until the first success keys are hashed under a
// secret of this process.
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

// heartbeat renews this node's slot and reads the number of live nodes. After an error the
// last number stays.
func (s *Store) heartbeat(ctx context.Context, slots *sluice.Slots) {
	d, err := slots.Acquire(ctx, "", s.id, 1)
	if err != nil || d.Held <= 0 {
		s.census.missed = true
		return
	}
	s.nodes.Store(d.Held)
	s.most.Store(s.census.heard(d.Held, time.Now()))
}

// census is the number of nodes by which limits are divided in an outage: the largest that was
// read within [heartbeatTTL]. After an outage the nodes return one by one, each with its next
// beat, so the number from before the outage is kept for as long again.
type census struct {
	most   int64
	until  time.Time
	missed bool // no beat has succeeded since
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

// leave releases this node's slot. If the call fails, the slot expires.
func (s *Store) leave(ctx context.Context, slots *sluice.Slots) {
	_, _ = slots.Release(ctx, "", s.id)
}
