// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// lease holds a connection's slot: it is renewed three times within each TTL.
// Between renewals there is a timer and no goroutine.
type lease struct {
	server     *Server
	terms      *terms // those under which it was acquired
	key, owner string
	cut        context.CancelFunc

	mu    sync.Mutex // held while the store is asked
	over  bool
	timer *time.Timer
}

// acquire asks for a slot. Where the answer is an error the lease is kept up
// all the same: the store may be back for the next renewal.
func (s *Server) acquire(ctx context.Context, t *terms, key, owner string, cut context.CancelFunc) (*lease, sluice.SlotDecision, error) {
	l := &lease{server: s, terms: t, key: key, owner: owner, cut: cut}
	ctx, cancel := context.WithTimeout(ctx, s.opts.DecisionTimeout)
	defer cancel()
	d, err := t.slots.Acquire(ctx, key, owner, 1)
	if err != nil || d.Allowed {
		l.mu.Lock()
		l.timer = time.AfterFunc(t.Open.TTL/3, l.renew)
		l.mu.Unlock()
	}
	return l, d, err
}

// renew holds on. A lease that has run out, as the store could not be asked for
// long, is acquired anew; if others have taken its place the connection ends.
func (l *lease) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.server.opts.DecisionTimeout)
	defer cancel()
	d, err := l.terms.slots.Renew(ctx, l.key, l.owner)
	if err == nil && !d.Allowed {
		d, err = l.terms.slots.Acquire(ctx, l.key, l.owner, 1)
	}
	switch {
	case err != nil:
		l.server.log.Warn(ctx, "slot not renewed", err)
	case !d.Allowed:
		l.cut()
		return
	}
	l.timer.Reset(l.terms.Open.TTL / 3)
}

// release gives the slot back.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.server.opts.DecisionTimeout)
	defer cancel()
	if _, err := l.terms.slots.Release(ctx, l.key, l.owner); err != nil {
		l.server.log.Warn(ctx, "slot not released", err)
	}
}
