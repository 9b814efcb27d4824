// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package front

import "sync"

// mostBrought is the number of limits that a Brought keeps.
const mostBrought = 4096

// Brought keeps limits that requests bring, as they are compiled, by the terms that requests
// state. Its zero value is empty. It is safe for concurrent use.
type Brought[Terms comparable, Compiled any] struct {
	mu    sync.RWMutex
	known map[Terms]Compiled
}

// Of returns the limits of terms. If they are not kept, it calls compile and, without an error,
// keeps the result in place of any other.
func (b *Brought[Terms, Compiled]) Of(t Terms, compile func() (Compiled, error)) (Compiled, error) {
	b.mu.RLock()
	known, ok := b.known[t]
	b.mu.RUnlock()
	if ok {
		return known, nil
	}
	compiled, err := compile()
	if err != nil {
		return compiled, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.known {
		if len(b.known) < mostBrought {
			break
		}
		delete(b.known, other)
	}
	if b.known == nil {
		b.known = make(map[Terms]Compiled)
	}
	b.known[t] = compiled
	return compiled, nil
}
