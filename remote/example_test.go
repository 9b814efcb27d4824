// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// away is a store that is not reachable.
type away struct{}

func (away) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errors.New("connection refused")
}

func (away) TakeBatch(context.Context, []sluice.Request, []sluice.Result) error {
	return errors.New("connection refused")
}

func ExampleWrap() {
	store, err := remote.Wrap(away{}, remote.Options{
		Policy: sluice.FailLocal,
		Local:  memstore.New(memstore.Options{MaxKeys: 1 << 16}),
		Nodes:  func() int { return 4 },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Print(err)
		}
	}()
	limit := sluice.MustParseLimit("8/min sliding-log")
	login, err := sluice.New(store, "login", limit)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := login.Take(context.Background(), "ann", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("allowed:", d.Allowed, "degraded:", d.Degraded)
	}
	fmt.Println("on each of 4 nodes", algo.WorstOf(limit.Share(4)))
	// Output:
	// allowed: true degraded: true
	// allowed: true degraded: true
	// allowed: false degraded: true
	// on each of 4 nodes at most 2 requests in any minute
}
