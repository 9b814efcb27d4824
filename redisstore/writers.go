// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// writers are limits that wrote states and are not those of the plans at hand.
// The zero value is ready to use.
type writers struct {
	known sync.Map // of writer to *sluice.Term
	count atomic.Int64
}

type writer struct{ name, head string }

// writersKept is how many are kept ready.
const writersKept = 1024

// of returns the limit of a name in whose head a state begins, and how long that
// is.
func (w *writers) of(name, state string) (*sluice.Term, int, error) {
	l, size, err := parseHead(state)
	if err != nil {
		return nil, 0, err
	}
	by := writer{name, state[:size]}
	if t, ok := w.known.Load(by); ok {
		return t.(*sluice.Term), size, nil
	}
	t, err := compileHead(name, by.head, l)
	if err != nil {
		return nil, 0, err
	}
	if w.count.Add(1) > writersKept {
		w.known.Clear()
		w.count.Store(1)
	}
	w.known.Store(by, t)
	return t, size, nil
}
