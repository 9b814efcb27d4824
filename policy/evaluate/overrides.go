// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// Overrides are limits of single keys that change while requests are decided. They replace
// the limits that the rules give these keys, whether by a tier or by an override of the rule.
// They belong to the caller, who may hand them to one [Evaluator] after the other. The zero
// Overrides are empty and ready to use. They are safe for concurrent use; a lookup takes no
// lock.
type Overrides struct {
	mu     sync.Mutex // of changes
	active atomic.Pointer[map[overrideKey]*override]
}

type overrideKey struct{ scope, key string }

type override struct {
	policy.CompiledOverride
	set set
}

// Put sets the overrides of some keys, all at once. One without a Set ends the override of its
// key. Put also forgets overrides that have expired by now. It takes a time in proportion to
// the number of overrides: less than a millisecond for 10,000.
func (t *Overrides) Put(now time.Time, changes ...policy.CompiledOverride) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[overrideKey]*override)
	if before := t.active.Load(); before != nil {
		next = maps.Clone(*before)
	}
	maps.DeleteFunc(next, func(_ overrideKey, o *override) bool { return !o.applies(now) })
	for _, c := range changes {
		at := overrideKey{c.Scope, c.Key}
		if delete(next, at); c.Set != nil {
			o := &override{CompiledOverride: c}
			o.set.fill(c.Set)
			next[at] = o
		}
	}
	t.active.Store(&next)
}

// Get returns the override of a key, by the scope of its level; it may have expired. ok is
// false if there is none.
func (t *Overrides) Get(scope, key string) (o policy.CompiledOverride, ok bool) {
	if found := t.find(scope, key); found != nil {
		return found.CompiledOverride, true
	}
	return o, false
}

// find returns the override of a key, nil if there is none.
func (t *Overrides) find(scope, key string) *override {
	if t == nil {
		return nil
	}
	all := t.active.Load()
	if all == nil {
		return nil
	}
	return (*all)[overrideKey{scope, key}]
}

// applies reports whether the override has not expired.
func (o *override) applies(now time.Time) bool {
	return o.Override.Expires.IsZero() || now.Before(o.Override.Expires)
}
