// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "sync/atomic"

// Live is the policy in force. The zero Live holds one that matches nothing.
// It is safe for concurrent use.
type Live struct {
	p atomic.Pointer[Policy]
}

var empty = &Policy{index: &index{}}

// Load returns the policy in force, never nil. It costs one atomic load.
func (l *Live) Load() *Policy {
	if p := l.p.Load(); p != nil {
		return p
	}
	return empty
}

// Swap puts p in force and returns the policy that was. Requests decided
// already are settled under the policy that decided them. States live in the
// store under the names of rules and limits, so they are kept: a limit that
// changed takes over what was spent under the old one. A nil p matches nothing.
func (l *Live) Swap(p *Policy) (old *Policy) {
	if old = l.p.Swap(p); old == nil {
		return empty
	}
	return old
}
