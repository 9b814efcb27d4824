// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"sync"
	"time"
)

// workers are goroutines for work that outlives the call which started it. An idle worker
// waits for more work, so that a busy store starts no goroutines.
type workers struct {
	pending *underway // counts the work

	mu      sync.Mutex
	idle    []chan func() // the last one gets the next work
	spare   int           // number of workers that have been idle since the last look
	looking bool          // whether a look is scheduled
	ended   bool
}

const (
	mostIdle  = 64          // idle workers; further ones end at once
	idleLooks = time.Second // between two looks; a look ends the workers that were idle since the last
)

// do has a worker call work and then w.pending.done. It does not block: if all workers are
// busy it starts a new one.
func (w *workers) do(work func()) {
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		go w.run(work)
		return
	}
	next := w.idle[n-1]
	w.idle = w.idle[:n-1]
	w.spare = min(w.spare, n-1)
	w.mu.Unlock()
	next <- work
}

func (w *workers) run(work func()) {
	more := make(chan func(), 1)
	for ok := true; ok; work, ok = <-more {
		work()
		w.pending.done()
		if !w.rest(more) {
			return
		}
	}
}

// rest makes a worker idle. It reports false if enough workers are idle.
func (w *workers) rest(more chan func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.idle) >= mostIdle {
		return false
	}
	w.idle = append(w.idle, more)
	if !w.looking {
		w.looking = true
		time.AfterFunc(idleLooks, w.look)
	}
	return true
}

// look ends the workers that have been idle since the last look.
func (w *workers) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dismiss(w.spare)
	w.spare = len(w.idle)
	if w.looking = w.spare > 0; w.looking {
		time.AfterFunc(idleLooks, w.look)
	}
}

// end ends all workers, busy ones after their work.
func (w *workers) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.dismiss(len(w.idle))
	w.spare = 0
}

// dismiss ends the n workers that have been idle longest. The caller holds mu.
func (w *workers) dismiss(n int) {
	for _, more := range w.idle[:n] {
		close(more)
	}
	w.idle = slices.Delete(w.idle, 0, n)
}
