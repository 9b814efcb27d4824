// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultAbandoned is how many requests a [Gateway] waits for at once whose client
// has left, if it is not reported otherwise.
const DefaultAbandoned = 1000

// share is the part of an Abandoned that one key may have: a tenth.
const share = 10

var (
	errAbandonedFull = errors.New("gateway: as many requests without a client are waited for as may be; see abandoned")
	errAbandonedKey  = errors.New("gateway: as many requests of one key without a client are waited for as may be; see abandoned")
)

// Abandoned bounds the requests whose client has left while a handler around the
// Gateway waits for the response: their exchange with the upstream goes on until
// that is there. Gateways may share one. It is safe for concurrent use.
type Abandoned struct {
	seen, lost, unsent, full atomic.Uint64

	mu       sync.Mutex
	most     int
	over     bool // nothing is waited for any more
	requests map[*abandonedRequest]struct{}
	keys     map[string]int
}

// abandonedRequest is one whose exchange goes on without a client.
type abandonedRequest struct {
	keys   []string
	cancel context.CancelCauseFunc
}

// AbandonedStats is the outcomes of requests whose client left before the response
// that a limit waits for.
type AbandonedStats struct {
	Waiting int    // exchanges that go on now
	Seen    uint64 // settled by the status that came
	Lost    uint64 // no response came: the upstream took too long or broke off, or the gateway ended
	Unsent  uint64 // cancelled: not sent whole
	Full    uint64 // cancelled: too many went on
}

// NewAbandoned returns an Abandoned for so many requests at once, at least 1, of
// which one key may have a tenth, at least 1.
func NewAbandoned(most int) *Abandoned {
	a := &Abandoned{requests: make(map[*abandonedRequest]struct{}), keys: make(map[string]int)}
	a.Resize(most)
	return a
}

// Resize makes it so many requests, at least 1. What goes on already does so.
func (a *Abandoned) Resize(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(most, 1)
}

// Waiting returns how many exchanges go on now.
func (a *Abandoned) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// Stats returns the outcomes of requests so far.
func (a *Abandoned) Stats() AbandonedStats {
	return AbandonedStats{
		Waiting: a.Waiting(), Seen: a.seen.Load(), Lost: a.lost.Load(), Unsent: a.unsent.Load(), Full: a.full.Load(),
	}
}

// Cancel cancels what goes on, and whatever is abandoned from now on. It does not
// wait until that is settled.
func (a *Abandoned) Cancel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for r := range a.requests {
		r.cancel(http.ErrServerClosed)
	}
}

// enter takes a place for a request of these keys, which leave gives back.
func (a *Abandoned) enter(keys iter.Seq[string], cancel context.CancelCauseFunc) (*abandonedRequest, error) {
	r := &abandonedRequest{slices.Compact(slices.Sorted(keys)), cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return nil, http.ErrServerClosed
	}
	if len(a.requests) >= a.most {
		return nil, errAbandonedFull
	}
	for _, key := range r.keys {
		if a.keys[key] >= max(a.most/share, 1) {
			return nil, errAbandonedKey
		}
	}
	a.requests[r] = struct{}{}
	for _, key := range r.keys {
		a.keys[key]++
	}
	return r, nil
}

func (a *Abandoned) leave(r *abandonedRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.requests, r)
	for _, key := range r.keys {
		if a.keys[key]--; a.keys[key] == 0 {
			delete(a.keys, key)
		}
	}
}
