// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "context"

// Hooks are notified of what a store is asked: for logs, traces and counts of the caller's
// own. Each is called before the store is asked. It returns the context with which that
// is done, such as one with a span, and what is called with the outcome; ctx and nil are
// fine. Both run in the caller's goroutine, at the same time for calls at the same time,
// and must not change what they are given or keep it. The zero value observes nothing.
type Hooks struct {
	// Take is of [Store]. It may read what Request.Outcomes and Request.Slot have
	// received once the outcome is there.
	Take func(ctx context.Context, req *Request) (context.Context, func(Decision, error))
	// Batch is of [TakeBatch], once for all requests. Each has its own Result where the
	// error is nil.
	Batch func(ctx context.Context, reqs []Request) (context.Context, func([]Result, error))
	// Slot is of [SlotStore].
	Slot func(ctx context.Context, req *SlotRequest) (context.Context, func(SlotDecision, error))
}

// Observe returns a Store that asks store and reports hooks. It is a [BatchStore], and a
// [SlotStore] or [ExplainStore] if store is one; explanations are asked for without a
// hook, as nothing comes of them. What happens to a request after its caller has left is
// reported by [MaybeSentError]. It costs what the hooks do, and copies a Request once more.
func Observe(store Store, hooks Hooks) Store {
	s := &observed{store, hooks}
	slots, slotted := store.(SlotStore)
	explains, explaining := store.(ExplainStore)
	switch {
	case slotted && explaining:
		return &struct {
			*observed
			observedSlots
			explainer
		}{s, observedSlots{slots, hooks.Slot}, explainer{explains}}
	case slotted:
		return &struct {
			*observed
			observedSlots
		}{s, observedSlots{slots, hooks.Slot}}
	case explaining:
		return &struct {
			*observed
			explainer
		}{s, explainer{explains}}
	default:
		return s
	}
}

type observed struct {
	store Store
	hooks Hooks
}

// Take is of [Store].
func (s *observed) Take(ctx context.Context, req Request) (Decision, error) {
	if s.hooks.Take == nil {
		return s.store.Take(ctx, req)
	}
	asked := req
	ctx, done := s.hooks.Take(ctx, &asked)
	d, err := s.store.Take(ctx, req)
	if done != nil {
		done(d, err)
	}
	return d, err
}

// TakeBatch is of [BatchStore].
func (s *observed) TakeBatch(ctx context.Context, reqs []Request, out []Result) error {
	if s.hooks.Batch == nil {
		return TakeBatch(ctx, s.store, reqs, out)
	}
	ctx, done := s.hooks.Batch(ctx, reqs)
	err := TakeBatch(ctx, s.store, reqs, out)
	if done != nil {
		done(out, err)
	}
	return err
}

type observedSlots struct {
	slots SlotStore
	hook  func(context.Context, *SlotRequest) (context.Context, func(SlotDecision, error))
}

// Slot is of [SlotStore].
func (s observedSlots) Slot(ctx context.Context, req SlotRequest) (SlotDecision, error) {
	if s.hook == nil {
		return s.slots.Slot(ctx, req)
	}
	asked := req
	ctx, done := s.hook(ctx, &asked)
	d, err := s.slots.Slot(ctx, req)
	if done != nil {
		done(d, err)
	}
	return d, err
}

// explainer hides what else a store does.
type explainer struct{ store ExplainStore }

// Explain is of [ExplainStore].
func (s explainer) Explain(ctx context.Context, req Request) (Explanation, error) {
	return s.store.Explain(ctx, req)
}

// ExplainSlot is of [ExplainStore].
func (s explainer) ExplainSlot(ctx context.Context, req SlotRequest) (SlotDecision, error) {
	return s.store.ExplainSlot(ctx, req)
}
