// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// writers holds limits that wrote states and belong to no plan of this process. The zero
// value is ready to use.
type writers struct {
	known sync.Map // of writer to *sluice.Term
	count atomic.Int64
}

type writer struct{ name, head string }

// writersKept is the maximum number of writers.
const writersKept = 1024

// of returns the limit, with that name, of the head at the start of a state, and the length
// of the head.
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
