// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clienttest tests stores of package redisstore over any client of Redis: what callers
// leave behind that go before the answer or in an outage, and what is sent. Each test needs a
// TestMain: see [redistest.Main].
package clienttest

import (
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
)

// Servers are a single server or a Cluster.
type Servers interface {
	Connect(t testing.TB) *redistest.Client
	URL() string
}

// Open returns a store over a client of its own, both closed when the test ends. The client
// waits for a server that hangs for longer than the test does.
type Open func(t *testing.T, at Servers, options redisstore.Options) *redisstore.Store

// Line calls take in goroutines, each with its number, and starts one after the other. It
// returns a function that waits for all.
func Line(n int, take func(i int)) (wait func()) {
	var group sync.WaitGroup
	for i := range n {
		started := make(chan struct{})
		group.Go(func() {
			close(started)
			take(i)
		})
		<-started
	}
	return group.Wait
}
