// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command cardfraud blocks a payment card at the third suspicious attempt
// within 10 minutes. The sliding log knows every attempt exactly, and it counts
// the blocked ones too: a card that is tried again stays blocked.
//
//	go -C examples run ./cardfraud
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func main() {
	g, err := newGuard(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	for i := 1; i <= 4; i++ {
		blocked, err := g.suspicious(context.Background(), "card 1234")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("suspicious attempt %d: blocked %v\n", i, blocked)
	}
}

type guard struct{ attempts *sluice.Limiter }

func newGuard(store sluice.Store) (*guard, error) {
	attempts, err := sluice.New(store, "suspicious", sluice.MustParseLimit("2/10min sliding-log count-denied"))
	if err != nil {
		return nil, err
	}
	return &guard{attempts}, nil
}

// suspicious records an attempt and reports whether the card is to be blocked.
// What is to happen if that is not known, is for the caller to say: err is not
// nil then.
func (g *guard) suspicious(ctx context.Context, card string) (blocked bool, err error) {
	d, err := g.attempts.Take(ctx, card, 1)
	return !d.Allowed, err
}
