// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"sync"
	"sync/atomic"
)

// underway counts the requests under way, for which Close waits. It is one word, which every
// request changes twice.
type underway struct {
	count atomic.Int64 // number of requests, plus ending after end
	once  sync.Once
	none  chan struct{} // closed when the count is 0 after end
}

const ending = 1 << 62

func newUnderway() *underway { return &underway{none: make(chan struct{})} }

// enter counts a request in. It reports false, and does not count it, after end.
func (u *underway) enter() bool {
	if u.count.Add(1) < ending {
		return true
	}
	u.done()
	return false
}

// more counts in further work of a request that is still counted in.
func (u *underway) more() { u.count.Add(1) }

// done counts a request out.
func (u *underway) done() {
	if u.count.Add(-1) == ending {
		u.over()
	}
}

func (u *underway) over() { u.once.Do(func() { close(u.none) }) }

// end makes enter report false, and waits until no request is under way. It reports whether
// this is the first call.
func (u *underway) end() (first bool) {
	was := u.count.Or(ending)
	if was == 0 {
		u.over()
	}
	<-u.none
	return was < ending
}
