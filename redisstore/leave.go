// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"sync/atomic"
)

// ErrCrowded is the error of a request that was not sent, as 1,024 or more are
// with the server whose callers have left: it hangs, or answers too late for them.
// Only requests that were on their way by then can be added to those. A node of a
// Cluster that hangs closes the others, too, until the Timeout is over.
var ErrCrowded = errors.New("redisstore: too many requests unanswered whose callers have left; not sent")

// mostLeft is how many requests may be with the server whose callers have left
// before no more are sent. Each keeps a goroutine or two until it is answered, or
// the Timeout is over.
const mostLeft = 1024

// left counts the requests under way whose callers have left. The zero value is
// ready to use.
type left struct{ n atomic.Int64 }

func (l *left) crowded() bool { return l.n.Load() >= mostLeft }

// abandonment says which came first: that a caller left, or that its request was
// over. The zero value is that of a caller that waits.
type abandonment struct{ ended atomic.Bool }

// abandon is called once, when the caller leaves.
func (l *left) abandon(a *abandonment) {
	l.n.Add(1)
	if a.ended.Swap(true) {
		l.n.Add(-1) // it was over
	}
}

// finish is called once, when the request is over.
func (l *left) finish(a *abandonment) {
	if a.ended.Swap(true) {
		l.n.Add(-1) // the caller had left
	}
}
