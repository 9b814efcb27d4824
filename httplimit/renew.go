// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// ErrExpired is what OnError is told of a request that lost its slot in flight
// while it ran: another runs in its place. It counts again when one is free.
var ErrExpired = errors.New("httplimit: a slot in flight expired while the request ran, and is taken")

// renew keeps the slots of a request while it runs, and asks for those again
// that it has lost. Nothing else may use v until stop has returned.
func (m *Middleware) renew(r *http.Request, v *policy.Verdict, lease time.Duration) (stop func()) {
	// A client that hangs up does not free the slot: its request still runs.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(max(lease/3, time.Millisecond))
		defer ticker.Stop()
		lost := false
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
			m.report(r, err)
			if err != nil {
				continue
			}
			if !held && !lost {
				m.report(r, ErrExpired)
			}
			lost = !held
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
