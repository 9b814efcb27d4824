// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command gameskill is a game's skill with a cooldown: however often a player
// presses the button, it is cast once in 3 seconds. A leaky bucket of one unit
// lets them out evenly.
//
//	go -C examples run ./gameskill
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func main() {
	fireball, err := newSkill(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	for press := 1; press <= 5; press++ {
		cooldown, err := fireball.press(context.Background(), "ann")
		switch {
		case err != nil:
			log.Fatal(err)
		case cooldown > 0:
			fmt.Printf("press %d: not ready, %.1f s to go\n", press, cooldown.Seconds())
		default:
			fmt.Printf("press %d: cast!\n", press)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

type skill struct{ casts *sluice.Limiter }

func newSkill(store sluice.Store) (*skill, error) {
	casts, err := sluice.New(store, "fireball", sluice.MustParseLimit("1/3s leaky-bucket"))
	if err != nil {
		return nil, err
	}
	return &skill{casts}, nil
}

// press casts the skill, or returns how long it is not ready yet.
func (s *skill) press(ctx context.Context, player string) (cooldown time.Duration, err error) {
	d, err := s.casts.Take(ctx, player, 1)
	return d.RetryAfter, err
}
