// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"log/slog"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

// TestSecretInAnOutage: a failure to read the secret in an outage is not logged beside the
// outage, whichever is noticed first.
func TestSecretInAnOutage(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	target, err := redisurl.ParseLine(redis.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("test.yaml", []byte("rules: [{name: a, limits: 1/s}]"))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := Open(Options{
		Target: target, Config: func() *config.Config { return c }, Log: slog.New(slog.DiscardHandler),
		WatchLocal: func(func() memstore.Stats) error { return nil }, Secret: func([32]byte) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
	shared.cancel() // it does not ask again by itself
	<-shared.ended
	select {
	case err := <-shared.errors: // it asked until it ended
		t.Log(err)
	default:
	}
	redis.Kill(t)
	shared.shareSecret(t.Context())
	if shared.store.Err() != nil {
		t.Fatal("the outage was noticed before")
	}
	select {
	case err := <-shared.errors:
		t.Errorf("reported: %v", err)
	default:
	}
}
