// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package resp is the front of the Redis protocol: it answers CL.THROTTLE as redis-cell does, and
// decides by rules under commands of its own. docs/resp.md describes it.
//
// The files, in the order in which to read them:
//
//   - resp.go: the front and its listeners
//   - parse.go: commands as bytes
//   - conn.go: connections: many commands are read, decided in one batch, and answered in order
//   - command.go: the commands that clients need to connect
//   - throttle.go: CL.THROTTLE
//   - rule.go: commands that name a rule
//   - reply.go: answers as bytes
package resp

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front, and the scope of CL.THROTTLE.
const name = "resp"

// refusal is why a command was refused, or a connection closed.
type refusal uint8

const (
	refusedAddress  refusal = iota // not in allow, or in deny
	refusedAuth                    // no valid token
	refusedRight                   // the token does not allow it
	refusedCommand                 // unknown, or with a fault
	refusedProtocol                // bytes that are no command, or too large
	refusedIdle                    // nothing came
	refusedHalf                    // a command did not end
	refusedUnread                  // the answers were not read
	refusals
)

var refusalNames = [refusals]string{"address", "auth", "right", "command", "protocol", "idle", "half", "unread"}

// Tokens returns the name of the token with a secret, "" if there is none, and whether its
// holder may do an operation by a rule or, if that is empty, by limits that it brings. It is
// safe for concurrent use.
type Tokens = func(secret string) (name string, may func(operation, rule string) bool)

// RESP holds what all listeners of this front share. It is safe for concurrent use.
type RESP struct {
	Tokens func(file string, p *policy.Policy) (Tokens, error) // reads a file

	plans    front.Brought[terms, *sluice.Plan] // of CL.THROTTLE
	refused  [refusals]atomic.Int64
	clients  atomic.Int64 // connections so far
	sessions sync.Pool    // of *session
}

// Refused returns the numbers of refused commands and connections, by reason.
func (r *RESP) Refused() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range r.refused {
			if !yield(refusalNames[i], r.refused[i].Load()) {
				return
			}
		}
	}
}

// Kind returns the kind of this front.
func (r *RESP) Kind() front.Kind {
	return front.Kind{Name: name, New: func(*config.Listener) (front.Front, error) {
		return &listener{resp: r, conns: make(map[*conn]struct{}), cancel: func() {}}, nil
	}}
}

// listener serves the clients of one listener.
type listener struct {
	resp    *RESP
	current atomic.Pointer[active]
	closing atomic.Bool
	ctx     context.Context //nolint:containedctx // of all decisions

	mu     sync.Mutex
	cancel func() // of ctx
	from   net.Listener
	conns  map[*conn]struct{}
}

// active answers commands under one configuration.
type active struct {
	*front.Snapshot
	tokens  Tokens // nil: none is needed
	admits  clientip.Admission
	records front.Recorder
	rules   sync.Map // name to *rule
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	if i, there := s.Config.Policy.RuleOf(name); there && s.Config.Policy.Rules()[i].Name == name {
		return nil, fmt.Errorf("rule %q has the scope of CL.THROTTLE; give it another name", name)
	}
	a := &active{
		Snapshot: s, admits: clientip.NewAdmission(s.Listener.Allow, s.Listener.Deny),
		records: front.Recorder{Front: name, Sinks: s.Sinks},
	}
	if file := s.Listener.TokensFile; file != "" {
		if a.tokens, err = l.resp.Tokens(file, s.Policy); err != nil {
			return nil, err
		}
	}
	return func() { l.current.Store(a) }, nil
}

// Listen implements [front.Front].
func (l *listener) Listen(of net.Listener) net.Listener { return of }

// Serve implements [front.Front].
func (l *listener) Serve(of net.Listener) error {
	l.mu.Lock()
	l.from = of
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.mu.Unlock()
	for !l.closing.Load() {
		accepted, err := of.Accept()
		switch {
		case err != nil && l.closing.Load():
			return nil
		case err != nil:
			return err
		}
		c := &conn{Conn: accepted, front: l, id: l.resp.clients.Add(1), proto: 2}
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
		go c.serve()
	}
	_ = of.Close() // it may be closed
	return nil
}

// InFlight implements [front.Front]. It returns the number of connections after Shutdown, which
// closes those that wait for a command.
func (l *listener) InFlight() int {
	if !l.closing.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Shutdown implements [front.Front].
func (l *listener) Shutdown(ctx context.Context) error {
	l.stop(func(c *conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) }) // which wakes it
	if httpserver.WaitForNone(ctx, l.InFlight) > 0 {
		return ctx.Err()
	}
	return nil
}

// Close implements [front.Front].
func (l *listener) Close() error {
	l.stop(func(c *conn) { _ = c.Conn.Close() })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	return nil
}

// stop accepts no more connections, and calls f for each.
func (l *listener) stop(f func(*conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing.Store(true)
	if l.from != nil {
		_ = l.from.Close() // it may be closed
	}
	for c := range l.conns {
		f(c)
	}
}
