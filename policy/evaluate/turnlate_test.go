// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestStoreFailsWhenAnInstantIsDue: an instant that no request waits for and that cannot be
// cancelled is reported, and a store that hangs then delays no waiting request.
func TestStoreFailsWhenAnInstantIsDue(t *testing.T) {
	gone := errors.New("the store is gone")
	for _, c := range []struct {
		name   string
		before func(context.Context) error
		want   error
	}{
		{"fails", func(context.Context) error { return gone }, gone},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := make(chan error, 1)
				l := newLine(t, evaluate.Options{
					MaxWait: time.Minute,
					OnError: func(_ context.Context, a policy.Attributes, err error) {
						if want := (&policy.Request{}).Attributes(); reflect.TypeOf(a) != reflect.TypeOf(want) || a.Method() != "" {
							t.Errorf("got %T, want empty attributes", a)
						}
						reported <- err
					},
				}, one("api", by(policy.Header("X-User")), "1/s burst 1"))
				l.store.Before = func(ctx context.Context, req sluice.Request) error {
					if req.Op == sluice.OpRefund {
						return c.before(ctx)
					}
					return nil
				}
				l.send("a", user("ada"))
				l.send("b", user("ada"))()
				l.send("c", user("bob"))
				l.send("d", user("bob"))
				l.check("a allowed at 0s", "b abandoned at 0s", "c allowed at 0s", "d delayed at 1s")
				if err := <-reported; !errors.Is(err, c.want) {
					t.Errorf("notified of %v, want %v", err, c.want)
				}
			})
		})
	}
}
