// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"sync"
	"sync/atomic"
)

// underway counts what is under way, for which Close waits: by one word, which every
// request changes twice.
type underway struct {
	count atomic.Int64 // how much there is, plus ending once nothing more is let in
	once  sync.Once
	none  chan struct{} // closed when nothing is let in and nothing is under way
}

const ending = 1 << 62

func newUnderway() *underway { return &underway{none: make(chan struct{})} }

// enter counts something in, unless nothing is let in any more.
func (u *underway) enter() bool {
	if u.count.Add(1) < ending {
		return true
	}
	u.done()
	return false
}

// more counts in what goes on for something that is counted in still.
func (u *underway) more() { u.count.Add(1) }

// done counts something out.
func (u *underway) done() {
	if u.count.Add(-1) == ending {
		u.over()
	}
}

func (u *underway) over() { u.once.Do(func() { close(u.none) }) }

// end lets nothing in any more, and waits until nothing is under way. It reports whether it
// is the first to do so.
func (u *underway) end() (first bool) {
	was := u.count.Or(ending)
	if was == 0 {
		u.over()
	}
	<-u.none
	return was < ending
}
