// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clienttest tests stores of package redisstore over any client of Redis: the effects
// of callers that leave before the answer or in an outage, and the scripts that are sent. Each
// test needs a TestMain: see [redistest.Main].
package clienttest

import (
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
)

// Servers is a single server or a Cluster.
type Servers interface {
	Connect(t testing.TB) *redistest.Client
	URL() string
}

// Open returns a store over a client of its own, both closed when the test ends. The client
// waits longer for a server that hangs than the test.
type Open func(t *testing.T, at Servers, options redisstore.Options) *redisstore.Store

// Line calls take in n goroutines, which it starts one after the other, each with its number.
// It returns a function that waits for all.
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
