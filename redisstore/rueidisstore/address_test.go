// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// warm has the client make all connections that it has for one server; each of them carries
// some of the requests.
func warm(t *testing.T, s *rueidisstore.Store) {
	t.Helper()
	l := testkit.Limiter(t, s, "warm", "1000000/h")
	for range 200 {
		testkit.Until(t, "a decision", func() bool { // on a busy machine a request may exceed its timeout
			_, err := l.Take(t.Context(), "k", 1)
			return err == nil
		})
	}
}

// refused waits until the server answers takes over all connections with a word.
func refused(t *testing.T, l *sluice.Limiter, word string) {
	t.Helper()
	testkit.Until(t, word, func() bool {
		for range 40 {
			if _, err := l.Take(t.Context(), "refused", 1); err == nil || !strings.Contains(err.Error(), word) {
				return false
			}
		}
		return true
	})
}

// TestFailoverBehindAnAddress: when an address leads to another server while connections to
// the old one remain, a store decides on the new server once the old one refuses it.
func TestFailoverBehindAnAddress(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "LOADING"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			a := redistest.StartAddress(t)
			var log testkit.Buffer
			s := openURL(t, t.Context(), a.URL(), redisstore.Options{Logger: logTo(&log)})
			l := testkit.Limiter(t, s, "failover", "3/h sliding-log")
			warm(t, s)
			a.Demote(t, word)
			refused(t, l, word)
			a.Lead()
			failedOver(t, s)
			if !strings.Contains(log.String(), "connected anew") || !strings.Contains(log.String(), word) {
				t.Errorf("the log has no line with %s: %s", word, log.String())
			}
		})
	}
}

// failedOver waits until a store takes units and slots, and enforces their limits. Until it
// has connected anew, its connections may lead to either server.
func failedOver(t *testing.T, s *rueidisstore.Store) {
	t.Helper()
	l := testkit.Limiter(t, s, "failover", "2/h sliding-log")
	slots, err := sluice.NewSlots(s, "failover", sluice.SlotLimit{Name: "open", Cap: 1, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	units, places := 0, 0
	for i := range 4 {
		testkit.Until(t, "a decision of the new server", func() bool {
			d, err := l.Take(t.Context(), "k", 1)
			if err == nil && d.Allowed {
				units++
			}
			return err == nil
		})
		testkit.Until(t, "a slot of the new server", func() bool {
			d, err := slots.Acquire(t.Context(), "k", strconv.Itoa(i), 1)
			if err == nil && d.RetryAfter == 0 {
				places++
			}
			return err == nil
		})
	}
	if units > 2 || places > 1 {
		t.Errorf("%d units and %d slots, want 2 and 1 at most", units, places)
	}
}

// TestFailoverByName: Sentinels and the nodes of a Cluster name the server that replaces
// another; the old one continues as its replica.
func TestFailoverByName(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	b := redistest.Redis(t)
	for name, start := range map[string]func(*testing.T) (url string, old, next *redistest.Server, failOver func()){
		"sentinels": func(t *testing.T) (string, *redistest.Server, *redistest.Server, func()) {
			s := redistest.StartSentinel(t, b)
			url := "redis-sentinel://" + s.Sentinels[0].Addr + "/" + redistest.MasterSet + redistest.Patient
			return url, s.Master, s.Replica, func() { s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.MasterSet) }
		},
		"cluster": func(t *testing.T) (string, *redistest.Server, *redistest.Server, func()) {
			c := redistest.StartCluster(t, b, 1, true)
			url := "redis-cluster://" + c.Masters[0].Addr + redistest.Patient
			return url, c.Masters[0], c.Replicas[0], func() { c.Replicas[0].Do(t, "CLUSTER", "FAILOVER") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, old, next, failOver := start(t)
			s := openURL(t, t.Context(), url, redisstore.Options{})
			warm(t, s)
			failOver()
			testkit.Until(t, "the new primary", func() bool {
				return strings.Contains(next.Do(t, "INFO", "replication"), "role:master") && strings.Contains(old.Do(t, "INFO", "replication"), "role:slave")
			})
			failedOver(t, s)
		})
	}
}

// TestFailoverOfSlots: a store that gets only requests for slots connects anew, too.
func TestFailoverOfSlots(t *testing.T) {
	t.Parallel()
	a := redistest.StartAddress(t)
	s := openURL(t, t.Context(), a.URL(), redisstore.Options{})
	slots, err := sluice.NewSlots(s, "failover", sluice.SlotLimit{Name: "open", Cap: 1, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	warm(t, s)
	a.Demote(t, "READONLY")
	a.Lead()
	testkit.Until(t, "a slot", func() bool {
		d, err := slots.Acquire(t.Context(), "k", "o", 1)
		return err == nil && d.RetryAfter == 0
	})
}

// TestConnectsAnewSeldom: a store connects anew at most four times a second, and in the end it
// uses the server, which accepts writes again.
func TestConnectsAnewSeldom(t *testing.T) {
	t.Parallel()
	a := redistest.StartAddress(t)
	s := openURL(t, t.Context(), a.URL(), redisstore.Options{})
	l := testkit.Limiter(t, s, "failover", "1000000/h")
	warm(t, s)
	a.Demote(t, "READONLY")
	before, began := a.Taken(), time.Now()
	testkit.Until(t, "eight connections", func() bool {
		_, err := l.Take(t.Context(), "k", 1)
		if err == nil {
			t.Fatal("a replica has decided")
		}
		return a.Taken() >= before+8
	})
	// The first of eight may come at once, the others a quarter of a second apart.
	if took := time.Since(began); took < 7*time.Second/4 {
		t.Errorf("8 connections within %v, want 4 a second at most", took)
	}
	a.Old.Do(t, "REPLICAOF", "NO", "ONE")
	failedOver(t, s)
}

// TestCloseWhileConnectingAnew: Close ends the goroutine that reconnects.
func TestCloseWhileConnectingAnew(t *testing.T) {
	t.Parallel()
	a := redistest.StartAddress(t)
	s := openURL(t, t.Context(), a.URL(), redisstore.Options{})
	l := testkit.Limiter(t, s, "failover", "1000000/h")
	a.Demote(t, "READONLY")
	before := a.Taken()
	testkit.Until(t, "a try", func() bool {
		_, err := l.Take(t.Context(), "k", 1)
		return err != nil && a.Taken() > before
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(t.Context(), "k", 1); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, sluice.ErrClosed)
	}
}
