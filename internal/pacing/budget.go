// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package pacing is the client's end of rate limits, whatever the protocol: of
// what servers say of their limits it makes when a call may be sent.
package pacing

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Budget is what is known of the limits on the calls of one host and partition.
// It is safe for concurrent use.
type Budget struct {
	key, host string
	o         *Options
	// turn holds one value while no call is next in line. A call that waits for it
	// is served in order of arrival.
	turn chan struct{}

	mu       sync.Mutex
	news     chan struct{} // closed and replaced when an answer came
	hold     time.Time     // nothing is sent before
	holdSaid time.Time     // when hold was said
	heldBy   uint64        // calls sent by then: what answers to later ones say is newer
	last     time.Time     // when the latest call was sent
	sent     uint64        // calls
	newest   uint64        // of those, the latest that was answered
	inFlight int           // sent and not answered
	paces    []pace        // at most maxItems
}

func newBudget(key, host string, o *Options) *Budget {
	b := &Budget{key: key, host: host, o: o, turn: make(chan struct{}, 1), news: make(chan struct{})}
	b.turn <- struct{}{}
	return b
}

// Enter blocks until a call may be sent and returns its number. The sender
// calls Answered or Lost once. The error is a [WaitError] where h allows no such
// wait, or the cause of the end of ctx.
func (b *Budget) Enter(ctx context.Context, h *Hold) (uint64, error) {
	if err := b.queue(ctx, h); err != nil {
		return 0, err
	}
	defer func() { b.turn <- struct{}{} }()
	for reported := false; ; {
		now := time.Now()
		b.mu.Lock()
		at, known := b.next(now)
		if known && !at.After(now) {
			b.spend(now)
			ticket := b.sent
			b.mu.Unlock()
			return ticket, nil
		}
		news := b.news
		b.mu.Unlock()
		if !known { // the answer to another call will report
			if !h.end.After(now) {
				return 0, h.refuse(0)
			}
		} else if err := h.exceeds(at, now); err != nil {
			return 0, err
		} else if !reported {
			h.reported(at.Sub(now))
			reported = true
		}
		if err := h.sleep(ctx, at, news); err != nil {
			return 0, err
		}
	}
}

// queue waits for the turn. A call whose time is up leaves the queue.
func (b *Budget) queue(ctx context.Context, h *Hold) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-b.turn:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(h.end))
	defer timer.Stop()
	select {
	case <-b.turn:
		return nil
	case <-timer.C:
		return h.refuse(0)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// EnterAfter is Enter after a wait of the call's own, which h allows.
func (b *Budget) EnterAfter(ctx context.Context, h *Hold, wait time.Duration) (uint64, error) {
	h.reported(wait)
	if err := h.sleep(ctx, time.Now().Add(wait), nil); err != nil {
		return 0, err
	}
	return b.Enter(ctx, h)
}

// next returns when the next call may be sent. It is not known if an answer
// must come first: then not before at, when that answer is waited for no longer.
func (b *Budget) next(now time.Time) (at time.Time, known bool) {
	at, blind := b.hold, false
	if doubt := b.holdSaid.Add(b.o.MaxHold); at.After(doubt) {
		at, blind = doubt, !now.Before(doubt)
	}
	for i := range b.paces {
		p := &b.paces[i]
		p.renew(now, p.said.Add(b.o.MaxHold), b.inFlight)
		blind = blind || p.blind
		if t := earlier(p.next(b.last), p.said.Add(b.o.MaxHold)); t.After(at) {
			at = t
		}
	}
	if over := b.last.Add(b.o.MaxHold); blind && b.inFlight > 0 && now.Before(over) {
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

// Lost says that a call has no answer: it may have been counted or not.
func (b *Budget) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.wake()
}

// Answered takes in what the answer to a call says.
func (b *Budget) Answered(ticket uint64, s Statement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	b.inFlight--
	b.hear(ticket, s)
}

// Heard takes in what the answer to a call says that is in flight no longer.
func (b *Budget) Heard(ticket uint64, s Statement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	b.hear(ticket, s)
}

func (b *Budget) hear(ticket uint64, s Statement) {
	if s.Cached {
		for i := range b.paces {
			b.paces[i].left++ // it never was with the server
		}
		return
	}
	b.holdBack(ticket, s)
	late := ticket < b.newest
	b.newest = max(b.newest, ticket)
	for _, it := range s.Items {
		if it.Quota == 0 && !it.Stated {
			continue // of bytes, or nothing is said of it
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

// holdBack takes in what an answer says of a wait for all. One to a call that
// was sent before the last such answer came can only make it longer.
func (b *Budget) holdBack(ticket uint64, s Statement) {
	until, newer := s.At.Add(s.Wait), ticket > b.heldBy
	switch {
	case s.Wait > 0 && (newer || until.After(b.hold)):
		b.hold, b.holdSaid, b.heldBy = until, s.At, b.sent
	case newer && s.Denied: // for how long it does not say: as before
		b.holdSaid = s.At
	case newer:
		b.hold = time.Time{}
	}
}

// pace returns that of the limit which it is about.
func (b *Budget) pace(it Item) *pace {
	i := slices.IndexFunc(b.paces, func(p pace) bool { return p.identity == it.identity })
	if i < 0 {
		// What was read may lie within all that the answer said.
		kept := identity{strings.Clone(it.Name), strings.Clone(it.Partition)}
		i, b.paces = len(b.paces), append(b.paces, pace{identity: kept})
	}
	return &b.paces[i]
}

// forget drops limits whose time is up, or of which nothing was heard for long,
// and which the server mentions no more. If it may not mention those there are,
// one whose quota is known stays until it was not mentioned for MaxHold.
func (b *Budget) forget(s Statement) {
	b.paces = slices.DeleteFunc(b.paces, func(p pace) bool {
		if s.Silent && p.quota > 0 && !p.blind {
			return !p.mentioned.Add(b.o.MaxHold).After(s.At)
		}
		return (p.blind || !p.until.After(s.At)) && !s.mentions(p.identity)
	})
}

// clear forgets what the server has said.
func (b *Budget) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold, b.paces = time.Time{}, nil
	b.wake()
}

func (b *Budget) wake() {
	close(b.news)
	b.news = make(chan struct{})
}
