// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package goredis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestFailoverBehindAnAddress: an address leads to another server, and the connections to the
// old one stay. A client by itself leaves a server that answers READONLY; with ConnMaxLifetime
// it leaves any other.
func TestFailoverBehindAnAddress(t *testing.T) {
	t.Parallel()
	for word, lifetime := range map[string]time.Duration{"READONLY": 0, "MASTERDOWN": time.Second / 2, "LOADING": time.Second / 2} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			a := redistest.StartAddress(t)
			client := redis.NewClient(&redis.Options{Addr: a.Addr, ConnMaxLifetime: lifetime, PoolSize: 1})
			s := testkit.Closed(t, open(t, client, redisstore.Options{}))
			l := testkit.Limiter(t, s, "failover", "1000/h")
			take := func() error {
				_, err := l.Take(t.Context(), "k", 1)
				return err
			}
			a.Demote(t, word)
			testkit.Until(t, word, func() bool { err := take(); return err != nil && strings.Contains(err.Error(), word) })
			a.Lead()
			testkit.Until(t, "a decision of the new server", func() bool { return take() == nil })
		})
	}
}
