// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// Takes that are sent at the same time mostly differ in nothing but the key: the limit
// is the same, or another scope's that reads the same, and so is the cost. Those are
// sent as one call of a script that decides one after the other, at one instant, as a
// call costs the server as much as a decision. In a Cluster each is sent by itself.
const (
	mostKeys = 12 // in a call: a server decides so many in about 100 µs
	lookBack = 8  // the last calls of a pipeline, which a take may join
)

// pipeline is calls that are sent together, with memory for the next ones.
type pipeline struct {
	calls   []together
	scripts []*transport.Script
	replies []transport.Reply
}

// together is programs that are sent as one call: that of the first, or of its form for
// several keys.
type together struct {
	invocation
	members []*queued
}

// mayShare reports whether takes under a limit, whose script has a form for several
// keys, are sent with others: not to a server that refuses keys of several slots, and not
// where that form leaves all of them to another script, as of some counters.
func (s *Store) mayShare(t *sluice.Term) bool {
	return !s.options.NoCoalescing && !s.gathering.oneSlot.Load() && (t.Kind != compiled.SlidingCounter || t.Behind == 1 && !t.CountDenied)
}

func (g *gathering) pipeline() *pipeline {
	w, ok := g.idlePipelines.Get().(*pipeline)
	if !ok {
		w = new(pipeline)
	}
	return w
}

func (g *gathering) putBack(w *pipeline) {
	for i := range w.calls {
		t := &w.calls[i]
		clear(t.members)
		clear(t.Keys)
		*t = together{invocation: invocation{Script: transport.Script{Keys: t.Keys[:0]}}, members: t.members[:0]}
	}
	clear(w.scripts)
	clear(w.replies)
	w.calls, w.scripts, w.replies = w.calls[:0], w.scripts[:0], w.replies[:0]
	g.idlePipelines.Put(w)
}

// add adds a program, to a call with others if it may share one.
func (w *pipeline) add(p *queued) {
	if p.inv.shares {
		for i := len(w.calls) - 1; i >= max(len(w.calls)-lookBack, 0); i-- {
			if t := &w.calls[i]; t.takes(p.inv) {
				t.members, t.Keys = append(t.members, p), append(t.Keys, p.inv.Keys[0])
				return
			}
		}
	}
	n := len(w.calls)
	w.calls = slices.Grow(w.calls, 1)[:n+1]
	t := &w.calls[n]
	t.program, t.Args = p.inv.program, p.inv.Args
	t.members, t.Keys = append(t.members, p), append(t.Keys, p.inv.Keys...)
}

// takes reports whether there is room for a program, and it differs in the key only.
func (t *together) takes(inv *invocation) bool {
	return t.program == inv.program && len(t.members) < mostKeys && slices.Equal(t.Args, inv.Args)
}

// toSend returns the scripts of all calls.
func (w *pipeline) toSend() []*transport.Script {
	for i := range w.calls {
		t := &w.calls[i]
		if len(t.members) > 1 {
			t.program = t.each
		}
		w.scripts = append(w.scripts, t.bySHA())
	}
	return w.scripts
}

// runPipeline sends calls and hands out the results.
func (s *Store) runPipeline(ctx context.Context, w *pipeline) {
	list := w.toSend()
	w.replies = slices.Grow(w.replies, len(list))[:len(list)]
	if len(list) == 1 {
		w.replies[0] = s.transport.Run(ctx, list[0])
	} else {
		s.transport.RunAll(ctx, list, w.replies)
	}
	for i := range w.calls {
		if t := &w.calls[i]; !t.unknown(&w.replies[i]) {
			t.answer(s, w.replies[i])
		}
	}
	for i := range w.calls { // once all others are answered
		if t := &w.calls[i]; t.unknown(&w.replies[i]) {
			t.answer(s, t.retry(ctx, s, w.replies[i]))
		}
	}
}

// unknown reports whether the server does not know the script for several keys.
func (t *together) unknown(res *transport.Reply) bool {
	return len(t.members) > 1 && res.Says("NOSCRIPT")
}

// answer hands each member its part of the reply. A member that was not run is then
// sent by itself: each.lua says which, and a call that is refused has run none.
func (t *together) answer(s *Store, res transport.Reply) {
	if len(t.members) == 1 {
		t.members[0].answer(s, res)
		return
	}
	if res.Says("CROSSSLOT") {
		s.gathering.oneSlot.Store(true)
	}
	list, err := res.AsList(0)
	for i, p := range t.members {
		switch {
		case err == nil && i < list.Len():
			p.answer(s, list.Reply(i))
		case err == nil || res.Refused:
			p.answer(s, transport.Reply{Err: transport.ErrNotRun})
		default:
			p.answer(s, transport.Reply{Err: err})
		}
	}
}
