// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// timed is a request that was sent at a moment and took so long.
type timed struct {
	at   time.Time
	took time.Duration
}

// pacer sends requests at a steady rate over some connections until stop is
// called. A request that is due while its connection still waits for the answer
// before is late, and its time counts from when it was due.
type pacer struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	mu     sync.Mutex
	sent   []timed
	faults []error
}

// pace starts a pacer. Request makes the i-th request of all; nil sends the same
// again and again.
func pace(ctx context.Context, address, path string, connections, rate int, request func(i int) []byte) *pacer {
	ctx, cancel := context.WithCancel(ctx)
	p := &pacer{cancel: cancel}
	interval := time.Duration(connections) * time.Second / time.Duration(rate)
	for n := range connections {
		p.wait.Go(func() {
			first := time.Now().Add(interval * time.Duration(n) / time.Duration(connections))
			var own func(i int) []byte
			if request != nil {
				own = func(i int) []byte { return request(i*connections + n) }
			}
			sent, err := pacedLoop(ctx, address, path, first, interval, own)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.sent, p.faults = append(p.sent, sent...), append(p.faults, err)
		})
	}
	return p
}

// stop ends the pacer and returns what it has sent.
func (p *pacer) stop() ([]timed, error) {
	p.cancel()
	p.wait.Wait()
	return p.sent, errors.Join(p.faults...)
}

func pacedLoop(ctx context.Context, address, path string, due time.Time, interval time.Duration, request func(int) []byte) (sent []timed, err error) {
	c, err := dial(ctx, address, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.conn.Close()) }()
	for i := 0; ctx.Err() == nil; i++ {
		began := due
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
			began = time.Now() // waking up late is this program's own doing
		}
		due = due.Add(interval)
		if request != nil {
			c.request = request(i)
		}
		if _, err := c.do(); err != nil {
			return sent, err
		}
		switch {
		case request == nil:
			sent = append(sent, timed{began, time.Since(began)})
		case i == 0:
			sent = make([]timed, 1) // of a soak only their number is kept
		default:
			sent[0].took++
		}
	}
	return sent, nil
}
