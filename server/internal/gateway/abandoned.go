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

// DefaultAbandoned is the default for the requests without a client that a [Gateway] continues
// at once.
const DefaultAbandoned = 1000

// share divides the places of an Abandoned: one key may have a tenth.
const share = 10

var (
	errAbandonedFull = errors.New("gateway: too many requests without a client are in progress; see abandoned")
	errAbandonedKey  = errors.New("gateway: too many requests of one key without a client are in progress; see abandoned")
)

// Abandoned bounds the requests whose client has left while a handler around the Gateway
// awaits the response: their exchange with the upstream continues until the response is there.
// Gateways may share one. It is safe for concurrent use.
type Abandoned struct {
	seen, lost, unsent, full atomic.Uint64

	mu       sync.Mutex
	most     int
	over     bool // no further request is accepted
	requests map[*abandonedRequest]struct{}
	keys     map[string]int
}

// abandonedRequest is a request whose exchange continues without a client.
type abandonedRequest struct {
	keys   []string
	cancel context.CancelCauseFunc
}

// AbandonedStats counts the requests whose client left before a response that a limit awaits.
type AbandonedStats struct {
	Waiting int    // exchanges in progress
	Seen    uint64 // settled by the response's status
	Lost    uint64 // no response came: the upstream took too long or broke off, or the gateway ended
	Unsent  uint64 // cancelled: not sent whole
	Full    uint64 // cancelled: too many in progress
}

// NewAbandoned returns an Abandoned for most requests at once, at least 1. One key may have a
// tenth of them, at least 1.
func NewAbandoned(most int) *Abandoned {
	a := &Abandoned{requests: make(map[*abandonedRequest]struct{}), keys: make(map[string]int)}
	a.Resize(most)
	return a
}

// Resize changes the bound to most, at least 1. Exchanges in progress continue.
func (a *Abandoned) Resize(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(most, 1)
}

// Waiting returns the number of exchanges in progress.
func (a *Abandoned) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// Stats returns the outcomes so far.
func (a *Abandoned) Stats() AbandonedStats {
	return AbandonedStats{
		Waiting: a.Waiting(), Seen: a.seen.Load(), Lost: a.lost.Load(), Unsent: a.unsent.Load(), Full: a.full.Load(),
	}
}

// Cancel cancels all exchanges in progress and all later ones. It does not wait until they are
// settled.
func (a *Abandoned) Cancel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for r := range a.requests {
		r.cancel(http.ErrServerClosed)
	}
}

// enter takes a place for a request of these keys; leave frees it.
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
