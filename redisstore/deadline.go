// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"time"
)

// bound returns a context that ends after the Timeout of the options, or up to 1/64 of it
// sooner. The client gets only such contexts.
func (s *Store) bound() context.Context { return s.deadlines.Context(now(), s.options.Timeout) }

// slack returns the time by which a request may be cancelled before its Timeout because it
// shares a call with others.
func (s *Store) slack() time.Duration { return s.options.Timeout / 16 }

// recent reports whether a context of the store's own has about as much time left as one
// made now, so that its request may be sent with others.
func (s *Store) recent(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && end.Sub(now()) >= s.options.Timeout-s.slack()
}
