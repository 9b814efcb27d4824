// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package pacing is the client's end of rate limits for every protocol: from servers'
// statements of their limits it computes when a call may be sent.
package pacing

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Budget holds the known limits on the calls of one host and partition. It is safe for
// concurrent use.
type Budget struct {
	key, host string
	o         *Options
	// turn holds one value while no call has the turn. Calls that wait for it are served in
	// order of arrival.
	turn chan struct{}

	mu            sync.Mutex
	answerCame    chan struct{} // closed and replaced at each answer
	blockedUntil  time.Time     // no call is sent before this
	blockedAt     time.Time     // when blockedUntil was stated
	blockedBefore uint64        // calls sent by then: answers to later ones are newer
	last          time.Time     // when the latest call was sent
	sent          uint64        // calls
	newest        uint64        // of those, the latest that was answered
	inFlight      int           // sent and not answered
	paces         []pace        // at most maxItems
}

func newBudget(key, host string, o *Options) *Budget {
	b := &Budget{key: key, host: host, o: o, turn: make(chan struct{}, 1), answerCame: make(chan struct{})}
	b.turn <- struct{}{}
	return b
}

// Enter blocks until a call may be sent and returns its number. The sender
// calls Answered or Lost once. The error is a [WaitError] if h does not allow the wait, or the
// cause of the end of ctx.
func (b *Budget) Enter(ctx context.Context, h *Waiting) (uint64, error) {
	if err := b.awaitTurn(ctx, h); err != nil {
		return 0, err
	}
	defer func() { b.turn <- struct{}{} }()
	for reported := false; ; {
		now := b.o.Now()
		b.mu.Lock()
		at, known := b.next(now)
		if known && !at.After(now) {
			b.spend(now)
			ticket := b.sent
			b.mu.Unlock()
			return ticket, nil
		}
		news := b.answerCame
		b.mu.Unlock()
		switch {
		case !known && !h.end.After(now): // the answer to another call will state it
			return 0, h.refuse(0)
		case !known:
		case at.After(h.end):
			return 0, h.refuse(at.Sub(now))
		case !reported:
			h.notify(at.Sub(now))
			reported = true
		}
		if err := h.sleep(ctx, at, news); err != nil {
			return 0, err
		}
	}
}

// awaitTurn waits for the turn. A call whose time is up waits no longer.
func (b *Budget) awaitTurn(ctx context.Context, h *Waiting) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-b.turn:
		return nil
	default:
	}
	over, stop := h.clock.After(h.end.Sub(h.clock.Now()))
	defer stop()
	select {
	case <-b.turn:
		return nil
	case <-over:
		return h.refuse(0)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// EnterAfter is Enter after a wait of the call's own, which h must allow.
func (b *Budget) EnterAfter(ctx context.Context, h *Waiting, wait time.Duration) (uint64, error) {
	h.notify(wait)
	if err := h.sleep(ctx, b.o.Now().Add(wait), nil); err != nil {
		return 0, err
	}
	return b.Enter(ctx, h)
}

// next returns when the next call may be sent. If an answer must come first, known is false,
// and at is the end of the wait for the answer.
func (b *Budget) next(now time.Time) (at time.Time, known bool) {
	at, blind := b.blockedUntil, false
	if doubt := b.blockedAt.Add(b.o.MaxRetryAfter); at.After(doubt) {
		at, blind = doubt, !now.Before(doubt)
	}
	for i := range b.paces {
		p := &b.paces[i]
		p.renew(now, p.said.Add(b.o.MaxRetryAfter), b.inFlight)
		blind = blind || p.blind
		if t := earlier(p.next(b.last), p.said.Add(b.o.MaxRetryAfter)); t.After(at) {
			at = t
		}
	}
	if over := b.last.Add(b.o.MaxRetryAfter); blind && b.inFlight > 0 && now.Before(over) {
		return over, false
	}
	return at, true
}

// spend counts a call that is sent now.
func (b *Budget) spend(now time.Time) {
	b.last = now
	b.sent++
	b.inFlight++
	for i := range b.paces {
		b.paces[i].left = max(b.paces[i].left-1, 0)
	}
}

// Lost records that a call gets no answer. The server may have counted it.
func (b *Budget) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.wake()
}

// Answered records the answer to a call, which is then no longer in flight.
func (b *Budget) Answered(ticket uint64, s Statement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	b.inFlight--
	b.hear(ticket, s)
}

// Heard records another answer to a call that is no longer in flight.
func (b *Budget) Heard(ticket uint64, s Statement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	b.hear(ticket, s)
}

func (b *Budget) hear(ticket uint64, s Statement) {
	if s.Cached {
		for i := range b.paces {
			b.paces[i].left++ // the server never saw it
		}
		return
	}
	b.blockUntil(ticket, s)
	late := ticket < b.newest
	b.newest = max(b.newest, ticket)
	for _, it := range s.Items {
		if it.Quota == 0 && !it.Stated {
			continue // it limits bytes, or states no limit
		}
		b.pace(it).state(it, s, late, b.inFlight)
	}
	if !s.Denied && !late {
		b.forget(s)
	}
	if len(b.paces) > maxItems {
		b.paces = b.paces[len(b.paces)-maxItems:]
	}
}

// blockUntil records the wait that an answer asks of all calls. The answer to a call sent
// before the last such answer can only lengthen it.
func (b *Budget) blockUntil(ticket uint64, s Statement) {
	until, newer := s.At.Add(s.Wait), ticket > b.blockedBefore
	switch {
	case s.Wait > 0 && (newer || until.After(b.blockedUntil)):
		b.blockedUntil, b.blockedAt, b.blockedBefore = until, s.At, b.sent
	case newer && s.Denied: // without a duration: the last one stays
		b.blockedAt = s.At
	case newer:
		b.blockedUntil = time.Time{}
	}
}

// pace returns the pace of the limit of an item.
func (b *Budget) pace(it Item) *pace {
	i := slices.IndexFunc(b.paces, func(p pace) bool { return p.identity == it.identity() })
	if i < 0 {
		// The text may be part of the whole answer's text.
		kept := identity{strings.Clone(it.Name), strings.Clone(it.Partition)}
		i, b.paces = len(b.paces), append(b.paces, pace{identity: kept})
	}
	return &b.paces[i]
}

// forget drops limits that have ended and that the server no longer mentions. A server
// that may leave limits out keeps one whose quota is known for MaxRetryAfter after its
// last mention.
func (b *Budget) forget(s Statement) {
	b.paces = slices.DeleteFunc(b.paces, func(p pace) bool {
		if s.Silent && p.quota > 0 && !p.blind {
			return !p.mentioned.Add(b.o.MaxRetryAfter).After(s.At)
		}
		return (p.blind || !p.until.After(s.At)) && !s.mentions(p.identity)
	})
}

// clear forgets the server's statements.
func (b *Budget) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blockedUntil, b.paces = time.Time{}, nil
	b.wake()
}

func (b *Budget) wake() {
	close(b.answerCame)
	b.answerCame = make(chan struct{})
}
