// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package faults kills, stops, slows, fills and moves real servers under load,
// behind the stores that programs wrap them in. Its tests take the client of
// Redis that the stores use.
package faults

import (
	"os"
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
)

// Client is a client of Redis, whose stores are tested.
type Client struct {
	// Open returns a store, to be closed with its connections, which have the name
	// "sluice".
	Open func(t *testing.T, at Target, options redisstore.Options) Store
	// Answer returns the answer of a server that an error of a store is about.
	Answer func(err error) (answer string, ok bool)
	// Only are the names of the faults that strike where SLUICE_FAULTS is not set.
	// Nil means all.
	Only []string
}

func (c *Client) strikes(f *fault) bool {
	return c.Only == nil || os.Getenv("SLUICE_FAULTS") != "" || slices.Contains(c.Only, f.name)
}

// Target is where a store's servers are, and how they are reached.
type Target struct {
	URL string // as package redisurl has it, without parameters
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
