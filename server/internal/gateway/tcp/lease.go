// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// lease holds a connection's slot. It is renewed three times within each TTL, by a timer, so
// no goroutine waits between renewals.
type lease struct {
	server     *Server
	terms      *terms // the terms of its acquisition
	key, owner string
	cut        context.CancelFunc

	mu    sync.Mutex // held during calls of the store
	over  bool
	timer *time.Timer
}

// acquire acquires a slot. After an error of the store the lease is renewed all the same: the
// store may be back by then.
func (s *Server) acquire(ctx context.Context, t *terms, key, owner string, cut context.CancelFunc) (*lease, sluice.SlotDecision, error) {
	l := &lease{server: s, terms: t, key: key, owner: owner, cut: cut}
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	d, err := t.slots.Acquire(ctx, key, owner, 1)
	if err != nil || d.Allowed {
		l.mu.Lock()
		l.timer = time.AfterFunc(t.Open.TTL/3, l.renew)
		l.mu.Unlock()
	}
	return l, d, err
}

// renew renews the slot. An expired lease, after a long outage of the store, is acquired
// again; if its place is taken, the connection ends.
func (l *lease) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), decisionTimeout)
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

// release frees the slot.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), decisionTimeout)
	defer cancel()
	if _, err := l.terms.slots.Release(ctx, l.key, l.owner); err != nil {
		l.server.log.Warn(ctx, "slot not released", err)
	}
}
