// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// handle serves a connection from its first byte to its last. cut cancels ctx.
func (s *Server) handle(ctx context.Context, cut context.CancelFunc, client net.Conn, owner string) {
	defer client.Close() //nolint:errcheck // nobody needs the error
	stop := context.AfterFunc(ctx, func() { reset(client) })
	defer stop()
	if err := s.takePlace(); err != nil {
		s.log.Warn(ctx, "connection refused", err)
		s.report(Event{Verdict: DeniedFull})
		s.denied.Add(1)
		reset(client)
		return
	}
	defer s.givePlaceBack()
	addr, err := identify(client)
	if err != nil {
		if s.opts.gate == nil { // a gate's listener logs it itself
			s.log.Warn(ctx, "connection refused", err)
		}
		reset(client)
		return
	}
	t := s.terms.Load()
	e := Event{Client: addr, Key: t.Key(addr)}
	release := s.decide(ctx, t, &e, owner, cut)
	s.report(e)
	if e.Verdict != Allowed {
		s.denied.Add(1)
		reset(client)
		return
	}
	defer release()
	if s.opts.gate != nil {
		s.opts.gate.hand(ctx, client)
		return
	}
	upstream, err := s.connect(ctx, client, t.upstream)
	if err != nil {
		s.log.Warn(ctx, "connection not passed on", err)
		reset(client)
		return
	}
	defer upstream.Close() //nolint:errcheck // nobody needs the error
	stopUpstream := context.AfterFunc(ctx, func() { reset(upstream) })
	defer stopUpstream()
	newExchange(s, addr, client, upstream, cut).run(ctx)
}

// takePlace takes a place for a connection, which givePlaceBack frees. The error says that none
// is left.
func (s *Server) takePlace() error {
	if most := s.terms.Load().MaxConnections; s.inside.Add(1) > most && most > 0 {
		s.inside.Add(-1)
		return fmt.Errorf("max_connections of the listener (%d) is reached; raise it, or set open, for each client network", most)
	}
	if !s.opts.Places.take() {
		s.inside.Add(-1)
		return s.opts.Places.errFull()
	}
	return nil
}

func (s *Server) givePlaceBack() {
	s.inside.Add(-1)
	s.opts.Places.giveBack()
}

// report passes an event to OnDecision.
func (s *Server) report(e Event) {
	if s.opts.OnDecision != nil {
		s.opts.OnDecision(e)
	}
}

// identify returns the client's address, after reading a header of the PROXY protocol, if
// there is one. The header may lie below TLS.
func identify(client net.Conn) (netip.Addr, error) {
	below := client
	for range 4 { // there are few wrappers
		if h, ok := below.(interface{ ReadHeader() error }); ok {
			if err := h.ReadHeader(); err != nil {
				return netip.Addr{}, err
			}
		}
		w, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = w.NetConn()
	}
	at, err := netip.ParseAddrPort(client.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("tcp: a client without an IP address: %w", err)
	}
	return at.Addr().Unmap().WithZone(""), nil
}

// decide sets e's verdict. If the connection is allowed, release frees its slot. A connection
// is charged to the rate and takes a slot, or neither.
func (s *Server) decide(ctx context.Context, t *terms, e *Event, owner string, cut context.CancelFunc) (release func()) {
	if t.Admit != nil && !t.Admit(e.Client) {
		e.Verdict = DeniedClient
		return nil
	}
	if t.exempt(e.Client) {
		return func() {}
	}
	req := sluice.Request{Charge: sluice.Charge{Plan: t.Rate, Key: e.Key, Cost: 1}}
	var taken sluice.Decision
	if t.Rate != nil {
		d, err := s.take(ctx, req)
		switch {
		case err != nil:
			if s.failed(ctx, t, e, err) {
				return nil
			}
		case !d.Allowed:
			e.Verdict, e.Limit, e.RetryAfter = DeniedRate, t.Rate.Term(d.Binding).Name, d.RetryAfter
			return nil
		}
		taken = d
	}
	if t.slots == nil {
		return func() {}
	}
	l, d, err := s.acquire(ctx, t, e.Key, owner, cut)
	switch {
	case err != nil:
		if !s.failed(ctx, t, e, err) {
			return l.release // it may have been acquired although the reply was lost
		}
		l.release() //nolint:contextcheck // the slot is freed although the connection has ended
	case d.Allowed:
		return l.release
	default:
		e.Verdict, e.Limit, e.RetryAfter = DeniedOpen, t.Open.Name, d.RetryAfter
		if e.Limit == "" {
			e.Limit = "slots"
		}
	}
	if undo, ok := req.Undo(taken); ok {
		if _, err := s.take(context.WithoutCancel(ctx), undo); err != nil {
			s.log.Warn(ctx, "rate not refunded", err)
		}
	}
	return nil
}

// failed logs an error of the store and reports whether it denies.
func (s *Server) failed(ctx context.Context, t *terms, e *Event, err error) bool {
	s.log.Warn(ctx, "connection not decided", err)
	if t.FailClosed {
		e.Verdict = Undecided
	}
	return t.FailClosed
}

func (s *Server) take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	return s.opts.Store.Take(ctx, req)
}

// connect completes the client's TLS handshake, if any, and dials the upstream.
func (s *Server) connect(ctx context.Context, client net.Conn, to string) (net.Conn, error) {
	if c, ok := client.(interface{ HandshakeContext(context.Context) error }); ok {
		shake, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := c.HandshakeContext(shake); err != nil {
			return nil, fmt.Errorf("tcp: TLS handshake with %v: %w", client.RemoteAddr(), err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	upstream, err := s.opts.Dial(ctx, "tcp", to)
	if err != nil {
		return nil, fmt.Errorf("tcp: upstream %s: %w", to, err)
	}
	return upstream, nil
}

// reset closes a connection abruptly, so that the system keeps no state of it.
func reset(c net.Conn) {
	for below := c; ; {
		if l, ok := below.(interface{ SetLinger(sec int) error }); ok {
			_ = l.SetLinger(0) // on an error it is closed the slower way
			break
		}
		w, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = w.NetConn()
	}
	// Close of a TLS connection would first write an alert, to a peer that may not read.
	_ = c.SetWriteDeadline(time.Now())
	_ = c.Close() // it is being given up
}

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
