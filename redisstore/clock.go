// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"time"
)

// now returns the time of this machine. Decisions do not depend on it: it bounds the
// duration of requests and estimates the server's calendar window.
func now() time.Time { return time.Now() }

// wait blocks until d has passed or ctx ends, and reports whether d has passed.
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
