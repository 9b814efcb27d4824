// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// place is where the states of one key under limits of one name are kept.
type place struct{ scope, limit, key string }

// mapStore is a Store that forgets nothing. Test a store of your own with package storetest.
type mapStore struct {
	mu     sync.Mutex
	states map[place][]algo.State
}

func (s *mapStore) Take(_ context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	if req.Slot != nil {
		return sluice.Decision{}, sluice.ErrNoSlots
	}
	if req.Hold != nil {
		return sluice.Decision{}, sluice.ErrNoHolds
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	var places []place
	var items []algo.Item
	for n := range req.Charges() {
		c := req.Nth(n)
		for i := range c.Plan.Len() {
			t := c.Plan.Term(i)
			at := place{c.Plan.Scope(), t.Name, c.Key}
			it := algo.Item{Term: t, Cost: c.Cost, Counted: c.Counted}
			it.Pick(slices.Clone(s.states[at]))
			places, items = append(places, at), append(items, it)
		}
	}
	d := algo.Decide(&req, items, now)
	for i := range items {
		if items[i].Written {
			s.states[places[i]] = items[i].Keep(nil)
		}
	}
	return d, nil
}

// A Store of another module decides by package algo. It keeps states without knowing their
// content.
func ExampleStore() {
	store := &mapStore{states: make(map[place][]algo.State)}
	login, err := sluice.New(store, "login", sluice.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		ok, err := login.Allow(context.Background(), "ann")
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
