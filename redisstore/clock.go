// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"time"
)

// now tells the time of this machine. It has no say in decisions: it bounds how
// long requests take, and guesses in which calendar window the server is.
func now() time.Time { return time.Now() }

// hurried is a context whose end the client is not told in advance. A client
// that has one call under way on a connection gives that call's deadline to the
// connection, which then breaks for all who share it when the deadline passes.
// Where only the end is heard of, the caller leaves and the connection lives on,
// for some µs more: so this is for deadlines sooner than the Timeout, after which
// a server that says nothing is given up.
type hurried struct {
	context.Context //nolint:containedctx // it is one
}

// Deadline says that there is none.
func (hurried) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// wait reports whether d has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
