// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package faults kills, stops, slows, fills and moves real servers under load,
// behind the stores that programs wrap them in. Its tests take the client of
// Redis that the stores use.
package faults

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// Client is a client of Redis, whose stores are tested.
type Client struct {
	// Open returns a store, to be closed with its connections, which have the name
	// "sluice".
	Open func(t *testing.T, at Target, options redisstore.Options) Store
	// Answer returns the answer of a server that an error of a store is about.
	Answer func(err error) (answer string, ok bool)
	// Check are the names of the cases that make check runs. Nil means all but the
	// long ones. Make long runs all.
	Check []string
}

// Target is where a store's servers are, and how they are reached.
type Target struct {
	URL string // for package redisurl, without parameters
	// Steady has a store hold from the start what it needs under any load.
	Steady bool
	// Patient keeps connections on which no answer comes for long.
	Patient bool
}

// Store is what the tests need of a [redisstore.Store].
type Store interface {
	sluice.BatchStore
	sluice.SlotStore
	Close() error
}

// Owner is a store that closes its client, as a program does.
type Owner struct {
	*redisstore.Store
	Client func() error // closes it
}

// Close implements [io.Closer].
func (o Owner) Close() error { return errors.Join(o.Store.Close(), o.Client()) }

// Test runs the cases.
func (c *Client) Test(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts servers")
	}
	keepDescriptors()
	run := func(name string, long bool, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			if c.Check != nil && !slices.Contains(c.Check, name) || c.Check == nil && long {
				testkit.Long(t)
			}
			test(t)
		})
	}
	run("linearizable", false, func(t *testing.T) { c.linearizable(t, "redis://"+redistest.Start(t, redistest.Redis(t)).Addr) })
	run("exact and linearizable on a Cluster", false, func(t *testing.T) {
		url := clusterURL(redistest.StartCluster(t, redistest.Redis(t), 3, false))
		c.exact(t, url)
		c.linearizable(t, url)
	})
	run("deny cache", false, c.denyCache)
	run("leases", false, c.leases)
	run("late answers are given back", false, c.lateAnswers)
	run("spent is reported", false, c.spentIsReported)
	run("conformance", true, c.conformance)
	for _, f := range outages {
		run(f.name, false, func(t *testing.T) { f.play(t, c) })
	}
	for _, f := range failovers {
		run(f.name, f.long, func(t *testing.T) { f.play(t, c) })
	}
	for _, f := range outages {
		if f.grows {
			run("nothing grows by "+f.name, f.hangs, func(t *testing.T) { c.nothingGrows(t, &f) })
		}
	}
}
