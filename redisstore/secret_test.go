// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

const secretKey = "sluice{1}!secret"

func hashSecret(t *testing.T, s *redisstore.Store) [32]byte {
	t.Helper()
	secret, err := s.HashSecret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// shareSecret checks that Stores with the same server and prefix share a secret, however many
// ask for it first, and that others do not.
func shareSecret(t *testing.T, at clienttest.Servers) {
	t.Helper()
	const racers = 4
	var race sync.WaitGroup
	secrets := make([][32]byte, racers)
	for i := range secrets {
		s := open(t, at, redisstore.Options{Timeout: testkit.Ceiling})
		race.Go(func() {
			var err error
			if secrets[i], err = s.HashSecret(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	race.Wait()
	for _, other := range secrets {
		if other != secrets[0] || other == [32]byte{} {
			t.Error("stores that share all have several secrets, or none")
		}
	}
	a, b := []byte("a secret of sixteen"), []byte("another of the kind")
	seen := map[[32]byte]string{secrets[0]: "without options"}
	for name, o := range map[string]redisstore.Options{
		"a prefix": {Prefix: "other"}, "a secret": {Secret: a}, "another secret": {Secret: b}, "both": {Prefix: "other", Secret: a},
	} {
		o.Timeout = testkit.Ceiling
		secret := hashSecret(t, open(t, at, o))
		if who, ok := seen[secret]; ok {
			t.Errorf("a store with %s has the secret of one %s", name, who)
		}
		seen[secret] = "with " + name
		if again := hashSecret(t, open(t, at, o)); again != secret {
			t.Errorf("two stores with %s have two secrets", name)
		}
	}
}

func TestHashSecret(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) { shareSecret(t, redistest.Shared(t, b)) })
		t.Run(b.Name+" cluster", func(t *testing.T) { shareSecret(t, redistest.SharedCluster(t, b)) })
	}
}

// TestHashSecretIsKept: a server keeps the secret for 400 days from each use, and a Store
// restores a lost one.
func TestHashSecretIsKept(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	life := func() time.Duration {
		t.Helper()
		ms := redistest.Number(t, client, "PTTL", secretKey)
		return time.Duration(ms) * time.Millisecond
	}
	const want = 400 * 24 * time.Hour
	secret := hashSecret(t, s)
	if got := life(); got > want || got < want-time.Hour {
		t.Errorf("it lives %v, want %v", got, want)
	}
	redistest.Do(t, client, "PEXPIRE", secretKey, strconv.FormatInt(time.Hour.Milliseconds(), 10))
	if again := hashSecret(t, s); again != secret {
		t.Error("it has changed")
	}
	if got := life(); got > want || got < want-time.Hour {
		t.Errorf("used again, it lives %v, want %v", got, want)
	}
	redistest.Do(t, client, "FLUSHALL")
	if again := hashSecret(t, s); again != secret {
		t.Error("it is another after the server has lost it")
	}
	if got := hashSecret(t, open(t, server, redisstore.Options{Timeout: testkit.Ceiling})); got != secret {
		t.Error("a new store has another after the server has lost it")
	}
	redistest.Do(t, client, "FLUSHALL")
	other := hashSecret(t, open(t, server, redisstore.Options{Timeout: testkit.Ceiling}))
	if got := hashSecret(t, s); got != other || got == secret {
		t.Error("a store does not take what another has put there first")
	}
}

// TestHashSecretFails: an error names the key, but does not show its value.
func TestHashSecretFails(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	var log bytes.Buffer
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, value := range []string{"", "short", strings.Repeat("0", 63), strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		redistest.Do(t, client, "SET", secretKey, value)
		_, err := s.HashSecret(t.Context())
		if err == nil || !strings.Contains(err.Error(), secretKey) || !strings.Contains(err.Error(), "delete it") || value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("value %q: got %v", value, err)
		}
	}
	redistest.Do(t, client, "FLUSHALL")
	redistest.Do(t, client, "RPUSH", secretKey, "a")
	if _, err := s.HashSecret(t.Context()); err == nil || !strings.Contains(err.Error(), secretKey) {
		t.Errorf("a list: got %v", err)
	}
	redistest.Do(t, client, "FLUSHALL")
	hashSecret(t, s)
	if log.Len() > 0 {
		t.Errorf("logged %q", log.String())
	}

	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.HashSecret(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who is gone: got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.HashSecret(t.Context()); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("a closed store: got %v", err)
	}
}

// TestHashSecretOfAHangingServer: a caller waits no longer than its context.
func TestHashSecretOfAHangingServer(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	release := redistest.HoldUp(t, server)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.HashSecret(ctx)
		left <- err
	}()
	redistest.AwaitBlocked(t, server, "1")
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	release()
	hashSecret(t, s)
}
