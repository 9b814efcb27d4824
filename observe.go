// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "context"

// Hooks observe the calls to a store: for logs, traces and counts. A hook is called before
// the store. It returns the context of the call, such as one with a span, and a function
// that is called with the outcome; it may return ctx and nil. Both run in the caller's
// goroutine, concurrently for concurrent calls, and must neither change nor keep their
// arguments. The zero value observes nothing.
type Hooks struct {
	// Take observes [Store].Take. The function for the outcome may read Request.Outcomes
	// and Request.Slot.
	Take func(ctx context.Context, req *Request) (context.Context, func(Decision, error))
	// Batch observes [TakeBatch], once for all requests. If the error is nil, each request
	// has its Result.
	Batch func(ctx context.Context, reqs []Request) (context.Context, func([]Result, error))
	// Slot observes [SlotStore].Slot.
	Slot func(ctx context.Context, req *SlotRequest) (context.Context, func(SlotDecision, error))
}

// Observe returns a Store that calls the hooks around store. It is a [BatchStore], and a
// [SlotStore] or [ExplainStore] if store is one; explanations have no hook, as they change
// nothing. The fate of a request whose caller has left is in its [MaybeSentError]. It costs
// the hooks and one more copy of the Request.
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

// Take implements [Store].
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

// TakeBatch implements [BatchStore].
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

// Slot implements [SlotStore].
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

// explainer has the methods of an ExplainStore alone.
type explainer struct{ store ExplainStore }

// Explain implements [ExplainStore].
func (s explainer) Explain(ctx context.Context, req Request) (Explanation, error) {
	return s.store.Explain(ctx, req)
}

// ExplainSlot implements [ExplainStore].
func (s explainer) ExplainSlot(ctx context.Context, req SlotRequest) (SlotDecision, error) {
	return s.store.ExplainSlot(ctx, req)
}
