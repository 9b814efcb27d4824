// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// Overrides are limits of single keys that change while requests are decided. They replace
// the limits that the rules give these keys, whether by a tier or by an override of the rule.
// They belong to the caller, who may pass them to one [Evaluator] after another, and must put
// them again, compiled for the rules of the new one. The zero Overrides are empty and ready to
// use. They are safe for concurrent use; a lookup takes no lock.
type Overrides struct {
	mu     sync.Mutex // of changes
	active atomic.Pointer[overrideTable]
}

// overrideTable holds overrides in parts, by a hash of the key, so that a change copies one part.
type overrideTable [64]map[overrideKey]*override

type overrideKey struct{ scope, key string }

var overrideSeed = maphash.MakeSeed()

// part returns the index of a key's part.
func part(key string) uint64 {
	return maphash.String(overrideSeed, key) % uint64(len(overrideTable{}))
}

type override struct {
	policy.CompiledOverride
	set set
}

// Put sets the overrides of some keys, all at once. A change without a Set ends the override
// of its key. Put also forgets overrides of some other keys that have expired by now.
func (t *Overrides) Put(now time.Time, changes ...policy.CompiledOverride) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, copied := new(overrideTable), [len(overrideTable{})]bool{}
	if before := t.active.Load(); before != nil {
		*next = *before
	}
	for _, c := range changes {
		at, i := overrideKey{c.Scope, c.Key}, part(c.Key)
		if !copied[i] {
			copied[i] = true
			if next[i] = maps.Clone(next[i]); next[i] == nil {
				next[i] = make(map[overrideKey]*override)
			}
			maps.DeleteFunc(next[i], func(_ overrideKey, o *override) bool { return !o.applies(now) })
		}
		if delete(next[i], at); c.Set != nil {
			o := &override{CompiledOverride: c}
			o.set.fill(c.Set)
			next[i][at] = o
		}
	}
	t.active.Store(next)
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
	return all[part(key)][overrideKey{scope, key}]
}

// applies reports whether the override has not expired.
func (o *override) applies(now time.Time) bool {
	return o.Override.Expires.IsZero() || now.Before(o.Override.Expires)
}
