// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestCallersWhoGoAwayAreLet: a caller whose context ends returns at once, also while it waits
// alone on a connection for the answer.
func TestCallersWhoGoAwayAreLet(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "1000/h")
	takes := []struct {
		name string
		do   func(context.Context) error
	}{
		{"take", func(ctx context.Context) error {
			_, err := l.Take(ctx, "k", 1)
			return err
		}},
		{"batch", func(ctx context.Context) error {
			out := make([]sluice.Result, 1)
			return errors.Join(s.TakeBatch(ctx, []sluice.Request{{Charge: l.Of("l", 1)}}, out), out[0].Err)
		}},
	}
	for _, take := range takes { // so that the server has the scripts, and a take is one call
		if err := take.do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	release := redistest.HoldUp(t, server)
	for _, take := range takes {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- take.do(ctx) }()
		redistest.AwaitBlocked(t, server, "1")
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", take.name, err, context.Canceled)
		}
		release()
		redistest.AwaitBlocked(t, server, "0")
		release = redistest.HoldUp(t, server)
	}
	release()
}
