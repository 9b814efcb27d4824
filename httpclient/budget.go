// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// budgets are the budgets that were used last.
type budgets struct {
	most    int
	maxHold time.Duration

	mu    sync.Mutex
	byKey map[string]*list.Element
	used  list.List // of *budget, the latest in front
}

func newBudgets(most int, maxHold time.Duration) *budgets {
	return &budgets{most: most, maxHold: maxHold, byKey: make(map[string]*list.Element)}
}

func (s *budgets) of(key, host string) *budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		s.used.MoveToFront(e)
		return e.Value.(*budget) // nothing else is put in
	}
	if s.used.Len() >= s.most {
		oldest := s.used.Remove(s.used.Back()).(*budget) // as above
		delete(s.byKey, oldest.key)
	}
	b := newBudget(key, host, s.maxHold)
	s.byKey[key] = s.used.PushFront(b)
	return b
}

// forget forgets what is known of a host.
func (s *budgets) forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.used.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*budget); strings.EqualFold(b.host, host) { // as above
			b.clear()
		}
	}
}

// budget is what is known of the limits on the requests of one host and
// partition.
type budget struct {
	key, host string
	maxHold   time.Duration
	// turn holds one value while no request is next in line. Who waits for it
	// is served in order of arrival.
	turn chan struct{}

	mu       sync.Mutex
	news     chan struct{} // closed and replaced when an answer came
	hold     time.Time     // nothing is sent before
	holdSaid time.Time     // when hold was said
	heldBy   uint64        // requests sent by then: what answers to later ones say is newer
	last     time.Time     // when the latest request was sent
	sent     uint64        // requests
	newest   uint64        // of those, the latest that was answered
	inFlight int           // sent and not answered
	paces    []pace        // at most maxItems
}

func newBudget(key, host string, maxHold time.Duration) *budget {
	b := &budget{key: key, host: host, maxHold: maxHold, turn: make(chan struct{}, 1), news: make(chan struct{})}
	b.turn <- struct{}{}
	return b
}

// enter blocks until a request may be sent and returns its number.
func (b *budget) enter(h *hold) (uint64, error) {
	if err := b.queue(h); err != nil {
		return 0, err
	}
	defer func() { b.turn <- struct{}{} }()
	for told := false; ; {
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
		if !known { // the answer to another request will tell
			if !h.end.After(now) {
				return 0, h.refuse(0)
			}
		} else if err := h.exceeds(at, now); err != nil {
			return 0, err
		} else if !told {
			h.told(at.Sub(now))
			told = true
		}
		if err := h.sleep(at, news); err != nil {
			return 0, err
		}
	}
}

// queue waits for the turn. A request whose time is up leaves the queue.
func (b *budget) queue(h *hold) error {
	ctx := h.request.Context()
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

// again enters after a wait of its own, which h allows.
func (b *budget) again(h *hold, wait time.Duration) (uint64, error) {
	h.told(wait)
	if err := h.sleep(time.Now().Add(wait), nil); err != nil {
		return 0, err
	}
	return b.enter(h)
}

// next returns when the next request may be sent. It is not known if an answer
// must come first: then not before at, when that answer is waited for no longer.
func (b *budget) next(now time.Time) (at time.Time, known bool) {
	at, blind := b.hold, false
	if doubt := b.holdSaid.Add(b.maxHold); at.After(doubt) {
		at, blind = doubt, !now.Before(doubt)
	}
	for i := range b.paces {
		p := &b.paces[i]
		p.renew(now, p.said.Add(b.maxHold), b.inFlight)
		blind = blind || p.blind
		if t := earlier(p.next(b.last), p.said.Add(b.maxHold)); t.After(at) {
			at = t
		}
	}
	if over := b.last.Add(b.maxHold); blind && b.inFlight > 0 && now.Before(over) {
		return over, false
	}
	return at, true
}

// spend counts a request that is sent now.
func (b *budget) spend(now time.Time) {
	b.last = now
	b.sent++
	b.inFlight++
	for i := range b.paces {
		b.paces[i].left = max(b.paces[i].left-1, 0)
	}
}

// lost says that a request has no answer: it may have been counted or not.
func (b *budget) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.wake()
}

// answered takes in what the answer to a request says.
func (b *budget) answered(ticket uint64, s statement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	b.inFlight--
	if s.cached {
		for i := range b.paces {
			b.paces[i].left++ // it never was with the server
		}
		return
	}
	b.holdBack(ticket, s)
	late := ticket < b.newest
	b.newest = max(b.newest, ticket)
	for _, it := range s.items {
		if it.quota == 0 && !it.stated {
			continue // of bytes, or nothing is said of it
		}
		b.pace(it).state(it, s, late, b.inFlight)
	}
	if !s.denied && !late {
		b.forget(s)
	}
	if len(b.paces) > maxItems {
		b.paces = b.paces[len(b.paces)-maxItems:]
	}
}

// holdBack takes in what an answer says of a wait for all. One to a request that
// was sent before the last such answer came can only make it longer.
func (b *budget) holdBack(ticket uint64, s statement) {
	until, newer := s.at.Add(s.wait), ticket > b.heldBy
	switch {
	case s.wait > 0 && (newer || until.After(b.hold)):
		b.hold, b.holdSaid, b.heldBy = until, s.at, b.sent
	case newer && s.denied: // for how long it does not say: as before
		b.holdSaid = s.at
	case newer:
		b.hold = time.Time{}
	}
}

// pace returns that of the limit which it is about.
func (b *budget) pace(it item) *pace {
	i := slices.IndexFunc(b.paces, func(p pace) bool { return p.identity == it.identity })
	if i < 0 {
		// What was read may lie within all that the answer said.
		kept := identity{strings.Clone(it.name), strings.Clone(it.partition)}
		i, b.paces = len(b.paces), append(b.paces, pace{identity: kept})
	}
	return &b.paces[i]
}

// forget drops limits whose time is up, or of which nothing was heard for long,
// and which the server mentions no more.
func (b *budget) forget(s statement) {
	b.paces = slices.DeleteFunc(b.paces, func(p pace) bool {
		return (p.blind || !p.until.After(s.at)) && !s.mentions(p.identity)
	})
}

// clear forgets what the server has said.
func (b *budget) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold, b.paces = time.Time{}, nil
	b.wake()
}

func (b *budget) wake() {
	close(b.news)
	b.news = make(chan struct{})
}
