// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// ErrExpired is what OnError is told of a request that lost its slot in flight
// while it ran: another may have run in its place.
var ErrExpired = errors.New("guard: a slot in flight expired while the request ran")

// renew keeps the slots of a request while it runs. Nothing else may use v
// until stop has returned.
func (g *Guard) renew(r *http.Request, v *policy.Verdict, lease time.Duration) (stop func()) {
	// A client that hangs up does not free the slot: its request still runs.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(max(lease/3, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			held, err := v.Renew(ctx)
			if ctx.Err() != nil {
				return
			}
			g.report(r, err)
			if err == nil && !held {
				g.report(r, ErrExpired)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
