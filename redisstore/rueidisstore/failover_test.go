// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestConnLifetime: an address leads to another server, and the connections to the old one
// stay. A client leaves the old server after its ConnLifetime.
func TestConnLifetime(t *testing.T) {
	t.Parallel()
	a := redistest.StartAddress(t)
	client := connect(t, "redis://"+a.Addr, func(o *rueidis.ClientOption) { o.ConnLifetime, o.DisableRetry = time.Second/2, false })
	s, err := rueidisstore.New(client, redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	l := testkit.Limiter(t, testkit.Closed(t, s), "failover", "1000000/h")
	for range 200 { // over each connection of the client
		if _, err := l.Take(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	a.Demote(t, "READONLY")
	a.Lead()
	testkit.Until(t, "200 decisions in turn", func() bool {
		for range 200 {
			if _, err := l.Take(t.Context(), "k", 1); err != nil {
				if !strings.Contains(err.Error(), "READONLY") {
					t.Fatal(err)
				}
				return false
			}
		}
		return true
	})
}
