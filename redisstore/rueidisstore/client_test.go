// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// opener returns a function that opens a store over a client that waits while the server
// hangs. change may be nil.
func opener(change func(*rueidis.ClientOption)) clienttest.Open {
	return func(t *testing.T, at clienttest.Servers, options redisstore.Options) *redisstore.Store {
		t.Helper()
		client := connect(t, at.URL(), change)
		s, err := rueidisstore.New(client, options)
		if err != nil {
			t.Fatal(err)
		}
		return testkit.Closed(t, s)
	}
}

// TestUnsent runs over the client that Open makes.
func TestUnsent(t *testing.T) {
	clienttest.Unsent(t, func(t *testing.T, at clienttest.Servers, options redisstore.Options) *redisstore.Store {
		t.Helper()
		s, err := rueidisstore.Open(t.Context(), at.URL(), options)
		if err != nil {
			t.Fatal(err)
		}
		return testkit.Closed(t, s).Store
	})
}

// TestOutagesLeaveNothing runs over a client that starts with the goroutines and the
// connection that it needs under any load.
func TestOutagesLeaveNothing(t *testing.T) {
	clienttest.OutagesLeaveNothing(t, opener(func(o *rueidis.ClientOption) { o.AlwaysPipelining, o.PipelineMultiplex = true, -1 }))
}

func TestLateOperationsAreUndone(t *testing.T) { clienttest.LateOperationsAreUndone(t, opener(nil)) }

func TestLateCallersAreUndone(t *testing.T) { clienttest.LateCallersAreUndone(t, opener(nil)) }

func TestWordsToAClosedStore(t *testing.T) { clienttest.WordsToAClosedStore(t, opener(nil)) }

func TestCallersThatLeave(t *testing.T) { clienttest.CallersThatLeave(t, opener(nil)) }

func TestNoGoroutinePerCall(t *testing.T) { clienttest.NoGoroutinePerCall(t, opener(nil)) }
