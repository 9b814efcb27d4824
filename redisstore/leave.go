// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"sync/atomic"
)

// ErrCrowded is the error of a request that was not sent, as too many are with
// the server whose callers have left: it hangs, or answers too late for them.
var ErrCrowded = errors.New("the server has not answered many requests whose callers have left; this one was not sent")

// mostLeft is how many requests may be with the server whose callers have left.
// Each keeps a goroutine or two until it is answered, or the Timeout is over.
const mostLeft = 1024

// left counts the requests under way whose callers have left. The zero value is
// ready to use.
type left struct{ n atomic.Int64 }

func (l *left) crowded() bool { return l.n.Load() >= mostLeft }

// presence says which came first: that a caller left, or that its request was
// over. The zero value is that of a caller that waits.
type presence struct{ ended atomic.Bool }

// leave is called once, when the caller leaves.
func (l *left) leave(p *presence) {
	l.n.Add(1)
	if p.ended.Swap(true) {
		l.n.Add(-1) // it was over
	}
}

// over is called once, when the request is over.
func (l *left) over(p *presence) {
	if p.ended.Swap(true) {
		l.n.Add(-1) // the caller had left
	}
}
