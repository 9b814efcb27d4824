// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// Takes that are sent at the same time mostly differ only in the key: their limits, maybe
// of several scopes, and costs are equal. Such takes, and charges of fixed windows, are
// sent as one call of a script that decides them one after the other, at one instant, as a
// call costs the server as much as a decision. In a Cluster each is sent by itself.
const (
	mostKeys = 12 // keys in a call, which takes about 100 µs on a server
	lookBack = 8  // number of last calls in a pipeline that a take may join
)

// pipeline is a list of calls that are sent together. Its memory is reused.
type pipeline struct {
	calls   []together
	scripts []*Script
	replies []Reply
}

// together is a list of programs that are sent as one call: the first one's, or its form
// for several keys.
type together struct {
	invocation
	members []*queued
}

// mayShare reports whether takes under a limit, whose script has a form for several keys,
// may share a call. They may not if the server refuses keys of several slots, nor if that
// form cannot decide them, as for some counters.
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
		*t = together{invocation: invocation{Script: Script{Keys: t.Keys[:0]}}, members: t.members[:0]}
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

// takes reports whether t has room for a program, which differs in the key only.
func (t *together) takes(inv *invocation) bool {
	return t.program == inv.program && len(t.members) < mostKeys && slices.Equal(t.Args, inv.Args)
}

// toSend returns the scripts of all calls.
func (w *pipeline) toSend() []*Script {
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
	s.client.Run(ctx, list, w.replies)
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

// unknown reports whether the server lacks the script for several keys.
func (t *together) unknown(res *Reply) bool {
	return len(t.members) > 1 && res.says("NOSCRIPT")
}

// answer hands each member its part of the reply. A member that was not run is then sent by
// itself: those missing in the list of each.lua, or all if the call was refused.
func (t *together) answer(s *Store, res Reply) {
	if len(t.members) == 1 {
		t.members[0].answer(s, res)
		return
	}
	if res.says("CROSSSLOT") {
		s.gathering.oneSlot.Store(true)
	}
	list, err := res.list(0)
	for i, p := range t.members {
		switch {
		case err == nil && i < len(list):
			p.answer(s, list[i])
		case err == nil || res.Refused:
			p.answer(s, Reply{Err: errNotRun})
		default:
			p.answer(s, Reply{Err: err})
		}
	}
}
